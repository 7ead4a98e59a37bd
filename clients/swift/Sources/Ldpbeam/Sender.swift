import Foundation

/// Posts reports that are due, one by one, until the collector does not take them.
public final class Sender: NSObject, URLSessionTaskDelegate {
    private let handle: SenderHandle
    private let url: URL
    private let session = URLSession(configuration: .ephemeral)

    public init(device: Device, url: URL) {
        handle = SenderHandle(device: device.handle)
        self.url = url
    }

    /// Reports that the collector refused for good, by its reason.
    public var dropped: [String: Int64] { handle.dropped() }

    /// Nothing is sent before, seconds since 1970.
    public var nextAttempt: Double { handle.nextAttempt() }

    /// Sends the reports that are due; how many the collector took. A failure is no error: the report stays, and a
    /// later call tries again, after a pause that doubles from failure to failure.
    public func sendDue() async throws -> Int64 {
        let before = handle.sent()
        while let next = try calling({ try handle.next() }) {
            let answer = await post(next.body)
            try calling { try handle.answered(report: next.report, answer: answer) }
        }
        return handle.sent() - before
    }

    private func post(_ report: Data) async -> Answer {
        var request = URLRequest(url: url, timeoutInterval: 30)
        request.httpMethod = "POST"
        request.httpBody = report
        request.setValue("application/x-protobuf", forHTTPHeaderField: "Content-Type")
        request.setValue("ldpbeam", forHTTPHeaderField: "User-Agent")
        guard let (body, response) = try? await session.data(for: request, delegate: self),
            let answer = response as? HTTPURLResponse
        else { return Answer(status: 0, retryAfter: "", body: Data()) }
        let retryAfter = answer.value(forHTTPHeaderField: "Retry-After") ?? ""
        return Answer(status: UInt16(clamping: answer.statusCode), retryAfter: retryAfter, body: body.prefix(4096))
    }

    /// A redirected POST becomes a GET without the report, whose answer would look like an acknowledgement.
    public func urlSession(
        _ session: URLSession, task: URLSessionTask, willPerformHTTPRedirection response: HTTPURLResponse,
        newRequest request: URLRequest
    ) async -> URLRequest? { nil }
}
