import java.io.File
import ldpbeam.Device
import ldpbeam.Sender

/** Arguments: a definition, the collector's address, and how many phones to stand for. */
fun main(arguments: Array<String>) {
    val (definition, url, phones) = arguments
    for (phone in 1..phones.toInt()) {
        val slice = mapOf("channel" to if (phone % 10 == 0) "beta" else "release")
        Device.open(File(definition).readText(), File("phones/$phone"), slice = slice).use { device ->
            device.report(if (phone % 4 == 0) "light" else "dark") // in the epoch of the clock
            Sender(device.outbox, url).use { it.sendDue() }
        }
    }
}
