package ldpbeam

import java.io.File
import java.nio.file.Path
import java.util.concurrent.Callable
import java.util.concurrent.Executors
import kotlin.time.Duration.Companion.days
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.Assertions.assertFalse
import org.junit.jupiter.api.Assertions.assertNull
import org.junit.jupiter.api.Assertions.assertTrue
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows
import org.junit.jupiter.api.io.TempDir

private const val LEVELS = "epsilon_longitudinal: 2.0\nepsilon_first: 1.0\nepoch: {length: 1d}\n"
internal const val THEME = "name: theme\ndomain: {labels: [light, dark]}\nprotocol: loloha\n$LEVELS"

/** Whose reports are long: two that agree by chance are as likely as a guess of 40 bits. */
private const val SHARE = "name: share\ndomain: {range: {max: 1, buckets: 64}}\nprotocol: l_osue\n$LEVELS"

/** What Python prints. */
internal fun python(vararg words: String): String {
    val process = ProcessBuilder(".venv/bin/python", "-m", "tests.kotlin.ask", *words)
        .directory(File("../..")).redirectError(ProcessBuilder.Redirect.INHERIT).start()
    val printed = process.inputStream.bufferedReader().readText()
    assertEquals(0, process.waitFor())
    return printed.trim()
}

internal val theme: String by lazy { python("definition", THEME) }

private fun ByteArray.hex() = joinToString("") { "%02x".format(it) }

private fun code(call: () -> Unit) = assertThrows<DeviceException>(call).code

class DeviceTest {
    @TempDir lateinit var folder: Path

    private fun at(name: String): File = folder.resolve(name).toFile()

    /** What copies of one new device report, each about one of the values. */
    private fun copies(definition: String, vararg values: Any): List<String> {
        Device.open(definition, at("first")).close()
        return values.mapIndexed { place, value ->
            at("first").copyRecursively(at("copy$place"))
            Device.open(definition, at("copy$place")).use { it.report(value, 0)!!.hex() }
        }
    }

    @Test
    fun `reports are those of the vectors`() {
        python("vectors", folder.toString())
        var reports = 0
        for (one in folder.toFile().listFiles()!!) {
            Device.open(one.resolve("definition.json").readText(), one.resolve("state")).use { device ->
                for (line in one.resolve("steps").readLines()) {
                    val (value, epoch, report) = line.split("\t")
                    val held: Any = when (value[0]) {
                        '\'' -> value.trim('\'')
                        '[' -> value.trim('[', ']').split(", ").map { Index(it.toLong()) }
                        else -> Index(value.toLong())
                    }
                    assertEquals(report, device.report(held, epoch.toLong())!!.hex(), "$one $epoch")
                    reports++
                }
            }
        }
        assertTrue(reports > 100)
    }

    @Test
    fun `Python and Kotlin share a folder`() {
        Device.open(theme, at("state"), budget = 8.0).use { device ->
            val first = python("report", THEME, at("state").path, "dark", "0")
            assertEquals(first, device.report("light", 0)!!.hex())
            val second = device.report("dark", 1)!!.hex()
            assertEquals(second, python("report", THEME, at("state").path, "light", "1"))
            assertEquals(listOf(0L, 1L), device.outbox.waiting().map { it.epoch })
            val spent = device.spent()
            assertEquals(listOf("theme" to 1L), spent.collections.map { it.name to it.times })
            assertEquals(8.0, spent.budget)
            assertEquals(2.0, spent.epsilon, 1e-9)
        }
    }

    @Test
    fun `a number is an Int, a Double, a Float or a text`() {
        val reports = copies(python("definition", SHARE), 0.7, 0.7f, "0.7", Index(44), 1, 1L, Index(63), Index(43))
        assertEquals(1, reports.take(4).toSet().size)
        assertEquals(1, reports.subList(4, 7).toSet().size)
        assertEquals(3, reports.toSet().size)
    }

    @Test
    fun `several attributes are a list or a map`() {
        val collection = "name: two\nattributes:\n- {name: a, domain: {range: {max: 1, buckets: 64}}}\n" +
            "- {name: b, domain: {labels: [light, dark]}}\nallocation: split\nprotocol: l_osue\n$LEVELS"
        val definition = python("definition", collection)
        val map = mapOf("b" to "dark", "a" to 0.7)
        val reports = copies(definition, listOf(0.7, "dark"), map, listOf(0.2, "dark"))
        assertEquals(reports[0], reports[1])
        assertEquals(2, reports.toSet().size)
        assertEquals("E-DEVICE-VALUE", code { Device.open(definition, at("other")).use { it.report(0.7, 0) } })
    }

    @Test
    fun `a report says its slice`() {
        val definition = python("definition", "${THEME}slices: {channel: [release, beta], country: [DE, other]}\n")
        Device.open(definition, at("state"), slice = mapOf("channel" to "beta", "country" to "DE")).use { device ->
            val (german, danish, french) = listOf("DE", "DK", "FR").mapIndexed { epoch, country ->
                val slice = mapOf("channel" to "beta", "country" to country).takeIf { country != "DE" }
                device.report("dark", epoch.toLong(), slice)!!.copyOfRange(1, 9).hex()
            }
            assertEquals(danish, french)
            assertFalse(german == danish)
            val error = assertThrows<DeviceException> { device.report("dark", 9, mapOf("channel" to "secret")) }
            assertEquals("E-DEVICE-SLICE", error.code)
            assertFalse("secret" in error.message!!)
        }
    }

    @Test
    fun `errors have a code and no value`() {
        Device.open(theme, at("state"), budget = 1.0, outbox = 0).use { device ->
            val error = assertThrows<DeviceException> { device.report("purple", 0) }
            assertEquals("E-DEVICE-VALUE", error.code)
            assertTrue(error.message!!.endsWith("[E-DEVICE-VALUE]") && "purple" !in error.message!!)
            assertEquals("E-DEVICE-BUDGET", code { device.report("dark", 0) })
            assertEquals("E-DEVICE-EPOCH", code { device.report("dark", -1) })
            assertEquals("E-DEVICE-OUTBOX", code { device.outbox.waiting() })
            assertThrows<IllegalArgumentException> { device.report(at("state"), 0) }
        }
        assertEquals("E-DEVICE-DEFINITION", code { Device.open("{}", at("other")) })
        assertEquals("E-DEVICE-MEMO", code { Device.open(theme, at("state"), memo = Memo.STORED) })
        assertThrows<IllegalArgumentException> { Device.open(theme, at("other"), outbox = -1) }
        at("state").resolve("device.sqlite").delete()
        assertEquals("E-DEVICE-STATE-LOST", code { Device.open(theme, at("state")) })
    }

    @Test
    fun `settings reach the device`() {
        val sentinel = at("kept")
        Device.open(theme, at("state"), budget = 1.0, atCap = AtCap.NOISE, outbox = 2, sentinel = sentinel).use {
            val reports = (0L..2L).map { epoch -> it.report("dark", epoch)!! }
            assertEquals(DropCounts(full = 1, damaged = 0), it.outbox.dropped)
            val (first, second) = it.outbox.waiting()
            assertArrayEquals(reports[1], it.outbox.read(first))
            it.outbox.acknowledge(first)
            assertEquals(listOf(second), it.outbox.waiting())
            assertNull(it.outbox.read(first))
            assertTrue(it.spent().collections.single().stopped)
        }
        assertTrue(sentinel.isFile && !at("state").resolve("sentinel").exists())
        val patient = Device.open(theme, at("patient"), maxJump = 2.days)
        patient.report("dark", 0)
        assertEquals("E-DEVICE-CLOCK", code { patient.report("dark", 4) })
    }

    @Test
    fun `a person withdraws, for good and in every process`() {
        Device.open(theme, at("state")).use { device ->
            device.report("dark", 0)
            device.withdraw()
            assertEquals("E-DEVICE-WITHDRAWN", code { device.report("dark", 0) })
        }
        assertEquals("E-DEVICE-WITHDRAWN", code { Device.open(theme, at("state")) })
    }

    @Test
    fun `threads share a device, and a closed one is used no more`() {
        val device = Device.open(theme, at("state"))
        val pool = Executors.newFixedThreadPool(8)
        val calls = List(8) { Callable { device.report(if (it % 2 == 0) "dark" else "light", 0)!!.hex() } }
        val reports = pool.invokeAll(calls).map { it.get() }
        pool.shutdown()
        assertEquals(1, reports.toSet().size)
        device.close()
        assertThrows<IllegalStateException> { device.report("dark", 9) }
    }
}
