package ldpbeam

import java.io.File
import java.lang.management.ManagementFactory
import kotlin.time.Duration

private const val REPORTS = 500L

/** For benchmarks/phones.py, with a definition and a folder: prints microseconds, one figure a line. */
fun main(arguments: Array<String>) {
    val (definition, folder) = arguments
    val text = File(definition).readText()
    val began = System.nanoTime()
    Device.open(text, File(folder), maxJump = Duration.INFINITE).use { device ->
        device.report(Index(0), 0)
        println("\nstart ${(System.nanoTime() - began) / 1000}")
        val thread = ManagementFactory.getThreadMXBean()
        val runs = List(5) { run ->
            val before = thread.currentThreadCpuTime
            for (epoch in 1 + run * REPORTS..(run + 1) * REPORTS) device.report(Index(7 * epoch % 1000), epoch)
            (thread.currentThreadCpuTime - before) / REPORTS / 1000
        }
        println("kotlin ${runs.min()}")
    }
}
