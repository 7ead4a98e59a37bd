package ldpbeam

import java.io.IOException
import java.io.InputStream
import java.net.HttpURLConnection
import java.net.MalformedURLException
import java.net.URL
import kotlin.time.Duration
import kotlin.time.Duration.Companion.seconds
import ldpbeam.ffi.Answer
import ldpbeam.ffi.SenderHandle

/**
 * Posts reports that are due, one by one, until the collector does not take them.
 *
 * @param url of the collector, such as https://collect.example.com/v1/reports.
 * @param timeout to wait for an answer.
 */
class Sender(outbox: Outbox, url: String, private val timeout: Duration = 30.seconds) : AutoCloseable {
    private val address = try {
        URL(url).also { if (it.protocol !in setOf("http", "https")) throw MalformedURLException() }
    } catch (_: MalformedURLException) {
        throw DeviceException(
            "E-DEVICE-COLLECTOR",
            "the collector's address is not an http or https URL. Write it like " +
                "https://collect.example.com/v1/reports. [E-DEVICE-COLLECTOR]",
        )
    }
    private val handle = SenderHandle(outbox.device.handle)

    /** Reports that the collector refused for good, by its reason. */
    val dropped: Map<String, Long> get() = handle.dropped()

    /** Nothing is sent before, in seconds since 1970. */
    val nextAttempt: Double get() = handle.nextAttempt()

    /**
     * Sends the reports that are due; how many the collector took. A failure is no exception: the report stays, and a
     * later call tries again, after a pause that doubles from failure to failure. It blocks: no call on a main thread.
     */
    fun sendDue(): Int {
        val before = handle.sent()
        while (true) {
            val request = calling { handle.next() } ?: return (handle.sent() - before).toInt()
            calling { handle.answered(request.report, post(request.body)) }
        }
    }

    override fun close() = handle.close()

    private fun post(report: ByteArray): Answer =
        try {
            val connection = address.openConnection() as HttpURLConnection
            connection.requestMethod = "POST"
            connection.doOutput = true
            connection.useCaches = false
            // A redirected POST becomes a GET without the report, whose answer would look like an acknowledgement.
            connection.instanceFollowRedirects = false
            connection.connectTimeout = timeout.inWholeMilliseconds.toInt()
            connection.readTimeout = timeout.inWholeMilliseconds.toInt()
            connection.setRequestProperty("Content-Type", "application/x-protobuf")
            connection.setRequestProperty("User-Agent", "ldpbeam")
            connection.setFixedLengthStreamingMode(report.size)
            connection.outputStream.use { it.write(report) }
            val status = connection.responseCode
            if (status < 400) connection.inputStream.close()
            val body = connection.errorStream?.use { read(it) } ?: ByteArray(0)
            Answer(maxOf(status, 0).toUShort(), connection.getHeaderField("Retry-After") ?: "", body)
        } catch (_: IOException) {
            Answer(0u, "", ByteArray(0))
        }

    private fun read(body: InputStream): ByteArray {
        val bytes = ByteArray(4096)
        var size = 0
        while (size < bytes.size) size += body.read(bytes, size, bytes.size - size).takeIf { it > 0 } ?: break
        return bytes.copyOf(size)
    }
}
