import Foundation

/// What went wrong, by a code of docs/errors.md. No text holds a value, or a label of a slice.
public struct DeviceError: LocalizedError {
    public let code: String
    public let errorDescription: String?
}

/// A value as a person would write it; `.index(place: 3)` is the one at a place of the domain, counted from 0.
public typealias Value = One

extension One: ExpressibleByStringLiteral, ExpressibleByIntegerLiteral, ExpressibleByFloatLiteral {
    public init(stringLiteral text: String) { self = .text(text: text) }
    public init(integerLiteral number: Int64) { self = .integer(number: number) }
    public init(floatLiteral number: Double) { self = .decimal(number: number) }
}

/// One device's side of a collection. Every call waits for the disk: none belongs on the main thread. Threads and
/// processes may share a device and its folder.
public final class Device: @unchecked Sendable {
    let handle: DeviceHandle

    /// The device whose state is in a folder, or a new one where there never was a state.
    /// - Parameters:
    ///   - definition: what `ldpbeam definition` prints for the collection.
    ///   - folder: the device's one folder, the same for all its collections; never part of a backup.
    ///   - budget: the most ε that the device may spend, over all collections of the folder; nil for no limit.
    ///   - outbox: the most reports that wait; 0 where the program sends what `report` returns.
    ///   - spread: seconds after a report from which its sending time is drawn, at most the rest of its epoch.
    ///   - sentinel: file that says how often the state has changed; nil for one in the folder.
    ///   - maxJump: seconds by which an epoch, or the clock, may be after the last one.
    ///   - slice: labels that every report says in clear, unless `report` is given others.
    public init(
        definition: String, folder: URL, budget: Double? = nil, atCap: AtCap = .stop, memo: Memo = .derived,
        outbox: Int32 = 256, spread: TimeInterval = 0, sentinel: URL? = nil, maxJump: TimeInterval = 400 * 86400,
        slice: [String: String]? = nil
    ) throws {
        let settings = Settings(
            budget: budget, atCap: atCap, memo: memo, outbox: outbox, spread: spread, sentinel: sentinel?.path,
            maxJump: maxJump, slice: slice)
        handle = try calling { try DeviceHandle.open(definition: definition, folder: folder.path, settings: settings) }
    }

    /// The bytes of one report about a value in an epoch (nil: the one that the clock shows), which wait in the outbox
    /// too; nil in an epoch that is none of the device's own. Asked again for an epoch it returns the same bytes.
    public func report(_ value: Value, epoch: Int64? = nil, slice: [String: String]? = nil) throws -> Data? {
        try report(.single(value: value), epoch, slice)
    }

    /// The same for several attributes, in their order.
    public func report(_ values: [Value], epoch: Int64? = nil, slice: [String: String]? = nil) throws -> Data? {
        try report(.each(values: values), epoch, slice)
    }

    /// The same for several attributes, by their names.
    public func report(_ values: [String: Value], epoch: Int64? = nil, slice: [String: String]? = nil) throws -> Data? {
        try report(.named(values: values), epoch, slice)
    }

    private func report(_ held: Held, _ epoch: Int64?, _ slice: [String: String]?) throws -> Data? {
        try calling { try handle.report(value: held, epoch: epoch, slice: slice) }
    }

    /// What this device has spent, over all collections of its folder.
    public func spent() throws -> Spending { try calling { try handle.spent() } }

    /// The person opts out: all collections of the folder end, and the folder is never used again.
    public func withdraw() throws { try calling { try handle.withdraw() } }

    /// All reports that wait, the first due first.
    public func waiting() throws -> [WaitingReport] { try calling { try handle.waiting() } }

    /// A report's bytes; nil where another process has sent or dropped it meanwhile.
    public func read(_ report: WaitingReport) throws -> Data? { try calling { try handle.read(report: report) } }

    /// Forget reports that a collector has, or will never take.
    public func acknowledge(_ sent: [WaitingReport]) throws { try calling { try handle.acknowledge(sent: sent) } }

    public func dropped() throws -> DropCounts { try calling { try handle.dropped() } }
}

func calling<T>(_ call: () throws -> T) throws -> T {
    do {
        return try call()
    } catch Failure.Device(let code, let text) {
        throw DeviceError(code: code, errorDescription: text)
    }
}
