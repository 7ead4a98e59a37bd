package ldpbeam

import com.sun.net.httpserver.HttpServer
import java.net.InetAddress
import java.net.InetSocketAddress
import java.nio.file.Path
import kotlin.time.Duration
import org.junit.jupiter.api.AfterEach
import org.junit.jupiter.api.Assertions.assertArrayEquals
import org.junit.jupiter.api.Assertions.assertEquals
import org.junit.jupiter.api.BeforeEach
import org.junit.jupiter.api.Test
import org.junit.jupiter.api.assertThrows
import org.junit.jupiter.api.io.TempDir

class SenderTest {
    @TempDir lateinit var folder: Path
    private val server = HttpServer.create(InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0)
    private val url = "http://127.0.0.1:${server.address.port}/v1/reports"
    private val posted = mutableListOf<ByteArray>()
    private lateinit var device: Device

    /** What the server answers to the first request, the second and so on: status and body. */
    private fun answers(vararg answers: Pair<Int, String>) {
        val rest = ArrayDeque(answers.toList())
        server.createContext("/v1/reports") { exchange ->
            assertEquals("application/x-protobuf", exchange.requestHeaders.getFirst("Content-Type"))
            posted += exchange.requestBody.readBytes()
            val (status, body) = rest.removeFirst()
            exchange.responseHeaders["Location"] = "/elsewhere"
            exchange.responseHeaders["Retry-After"] = "3000"
            exchange.sendResponseHeaders(status, if (body.isEmpty()) -1 else body.length.toLong())
            exchange.responseBody.use { it.write(body.toByteArray()) }
        }
        server.createContext("/elsewhere") { it.sendResponseHeaders(204, -1) }
        server.start()
    }

    @BeforeEach
    fun open() {
        device = Device.open(theme, folder.toFile())
    }

    @AfterEach
    fun close() {
        device.close()
        server.stop(0)
    }

    private fun reports(count: Long) = (0 until count).map { device.report("dark", it)!! }

    @Test
    fun `posts what is due and forgets what was taken`() {
        val reports = reports(20)
        answers(*Array(20) { 204 to "" })
        assertEquals(20, Sender(device.outbox, url).use { it.sendDue() })
        reports.zip(posted) { report, bytes -> assertArrayEquals(report, bytes) }
        assertEquals(0, device.outbox.waiting().size)
    }

    @Test
    fun `drops what the collector refuses for good, and counts it`() {
        reports(2)
        answers(400 to """{"reason": "foreign_epoch"}""", 204 to "")
        Sender(device.outbox, url).use { sender ->
            assertEquals(1, sender.sendDue())
            assertEquals(mapOf("foreign_epoch" to 1L), sender.dropped)
        }
        assertEquals(0, device.outbox.waiting().size)
    }

    @Test
    fun `keeps what was taken by nobody, and pauses`() {
        reports(3)
        answers(204 to "", 503 to "", 404 to "<html>", 302 to "")
        for (taken in listOf(1, 0, 0)) {
            Sender(device.outbox, url).use { sender ->
                assertEquals(taken, sender.sendDue())
                assertEquals(0, sender.sendDue())
                assertEquals(3000.0, sender.nextAttempt - System.currentTimeMillis() / 1000.0, 100.0)
            }
            assertEquals(2, device.outbox.waiting().size)
        }
        assertEquals(4, posted.size)
    }

    @Test
    fun `sends nothing before it is due`() {
        // An epoch of a million days ends in 27 centuries, and a time within it is at hand once in 100 million cases.
        val definition = python("definition", THEME.replace("length: 1d", "length: 1000000d"))
        Device.open(definition, folder.resolve("spread").toFile(), spread = Duration.INFINITE).use { spread ->
            spread.report("dark")
            answers(204 to "")
            assertEquals(0, Sender(spread.outbox, url).use { it.sendDue() })
            assertEquals(0, posted.size)
        }
    }

    @Test
    fun `nobody answers`() {
        reports(1)
        Sender(device.outbox, url.replace("${server.address.port}", "1")).use { assertEquals(0, it.sendDue()) }
        assertEquals(1, device.outbox.waiting().size)
        val error = assertThrows<DeviceException> { Sender(device.outbox, "ftp://example.com") }
        assertEquals("[E-DEVICE-COLLECTOR]", error.message?.substringAfterLast(" "))
    }
}
