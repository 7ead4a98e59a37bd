import Foundation
import XCTest

@testable import Ldpbeam

final class DeviceTests: XCTestCase {
    func testAReportWaitsAndIsTheSameBytesAgain() throws {
        let file = URL(fileURLWithPath: #filePath).appendingPathComponent("../../../../../examples/web/definition.json")
        let definition = try String(contentsOf: file.standardized, encoding: .utf8)
        let folder = FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
        let device = try Device(definition: definition, folder: folder, budget: 100)
        let first = try device.report("light", epoch: 0)
        XCTAssertNotNil(first)
        XCTAssertEqual(first, try device.report("dark", epoch: 0))
        let waiting = try device.waiting()
        XCTAssertEqual(waiting.map(\.epoch), [0])
        XCTAssertEqual(try device.read(waiting[0]), first)
        try device.acknowledge(waiting)
        XCTAssertEqual(try device.waiting(), [])
        XCTAssertThrowsError(try device.report(4_711, epoch: 1)) { error in
            XCTAssertEqual((error as? DeviceError)?.code, "E-DEVICE-VALUE")
            XCTAssertFalse(error.localizedDescription.contains("4711"))
        }
        try device.withdraw()
        XCTAssertThrowsError(try device.report("light", epoch: 1))
    }
}
