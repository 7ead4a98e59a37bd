package ldpbeam

import java.io.File
import kotlin.time.Duration
import kotlin.time.Duration.Companion.days
import kotlin.time.DurationUnit.SECONDS
import ldpbeam.ffi.DeviceHandle
import ldpbeam.ffi.Failure
import ldpbeam.ffi.Held
import ldpbeam.ffi.One
import ldpbeam.ffi.Settings

/** What went wrong, by a code of docs/errors.md. No text holds a value, or a label of a slice. */
class DeviceException internal constructor(val code: String, message: String) : Exception(message)

/** The value at a place of the domain, counted from 0. */
data class Index(val place: Long)

typealias AtCap = ldpbeam.ffi.AtCap
typealias Memo = ldpbeam.ffi.Memo
typealias WaitingReport = ldpbeam.ffi.WaitingReport
typealias DropCounts = ldpbeam.ffi.DropCounts
typealias Spending = ldpbeam.ffi.Spending

/**
 * One device's side of a collection.
 *
 * Every call waits for the disk: call it from a background thread, in coroutines within
 * `withContext(Dispatchers.IO)`. Threads and processes may share a device and its folder; one call runs at a time.
 */
class Device private constructor(internal val handle: DeviceHandle) : AutoCloseable {
    /** The reports that wait to be sent. */
    val outbox = Outbox(this)

    /**
     * The bytes of one report about [value] in [epoch], which wait in the [outbox] too; null in an epoch that is none
     * of the device's own. Asked again for an epoch it returns the same bytes, whatever the value is by then.
     *
     * @param value a [String], a [Number] or an [Index]; for several attributes a [List] of these, or a [Map] by name.
     * @param epoch null for the one that the clock shows.
     * @param slice the labels of this report; null for those that [open] was given.
     */
    fun report(value: Any, epoch: Long? = null, slice: Map<String, String>? = null): ByteArray? =
        calling { handle.report(held(value), epoch, slice) }

    /** What this device has spent, over all collections of its folder. */
    fun spent(): Spending = calling { handle.spent() }

    /** The person opts out: all collections of the folder end, and the folder is never used again. */
    fun withdraw() = calling { handle.withdraw() }

    /** Frees memory; the folder stays as it is. */
    override fun close() = handle.close()

    companion object {
        /**
         * The device whose state is in [folder], or a new one where there never was a state.
         *
         * @param definition what `ldpbeam definition` prints for the collection.
         * @param folder the device's one folder, the same for all its collections; never part of a backup.
         * @param budget the most ε that the device may spend, over all collections of the folder; null for no limit.
         * @param outbox the most reports that wait; 0 where the program sends what [report] returns.
         * @param spread time after a report from which its sending time is drawn, at most the rest of its epoch.
         * @param sentinel file that says how often the state has changed; null for one in the folder.
         * @param maxJump time by which an epoch, or the clock, may be after the last one.
         * @param slice labels that every report says in clear, unless [report] is given others.
         */
        fun open(
            definition: String,
            folder: File,
            budget: Double? = null,
            atCap: AtCap = AtCap.STOP,
            memo: Memo = Memo.DERIVED,
            outbox: Int = 256,
            spread: Duration = Duration.ZERO,
            sentinel: File? = null,
            maxJump: Duration = 400.days,
            slice: Map<String, String>? = null,
        ): Device {
            require(outbox >= 0) { "an outbox holds 0 reports or more" }
            val settings = Settings(
                budget, atCap, memo, outbox, spread.toDouble(SECONDS),
                sentinel?.path, maxJump.toDouble(SECONDS), slice,
            )
            return Device(calling { DeviceHandle.open(definition, folder.path, settings) })
        }
    }
}

/** Reports that wait to be sent: on disk from before they leave the device until a collector has them. */
class Outbox internal constructor(internal val device: Device) {
    /** All reports that wait, the first due first. */
    fun waiting(): List<WaitingReport> = calling { device.handle.waiting() }

    /** A report's bytes; null where another process has sent or dropped it meanwhile. */
    fun read(report: WaitingReport): ByteArray? = calling { device.handle.read(report) }

    /** Forget reports that a collector has, or will never take. */
    fun acknowledge(vararg sent: WaitingReport) = calling { device.handle.acknowledge(sent.toList()) }

    val dropped: DropCounts
        get() = calling { device.handle.dropped() }
}

internal inline fun <T> calling(call: () -> T): T =
    try {
        call()
    } catch (failure: Failure.Device) {
        throw DeviceException(failure.code, failure.text)
    }

private fun held(value: Any): Held = when (value) {
    is List<*> -> Held.Each(value.map(::one))
    is Map<*, *> -> Held.Named(value.entries.associate { (name, held) -> name as String to one(held) })
    else -> Held.Single(one(value))
}

private fun one(value: Any?): One = when (value) {
    is String -> One.Text(value)
    is Index -> One.Index(value.place)
    is Byte, is Short, is Int, is Long -> One.Integer((value as Number).toLong())
    is Float, is Double -> One.Decimal(value.toString().toDouble()) // 0.7f is the decimal 0.7 too
    else -> throw IllegalArgumentException("a value is a String, a Number or an Index, or a List or a Map of these")
}
