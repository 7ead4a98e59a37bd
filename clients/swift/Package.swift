// swift-tools-version:5.9
import PackageDescription

// .github/workflows/phones.yaml writes Sources/Ldpbeam/LdpbeamFFI.swift and build/ before Swift begins.
let package = Package(
    name: "Ldpbeam",
    platforms: [.iOS(.v15), .macOS(.v12)],
    products: [.library(name: "Ldpbeam", targets: ["Ldpbeam"])],
    targets: [
        .binaryTarget(name: "LdpbeamFFILibrary", path: "build/LdpbeamFFILibrary.xcframework"),
        .target(name: "Ldpbeam", dependencies: ["LdpbeamFFILibrary"]),
        .testTarget(name: "LdpbeamTests", dependencies: ["Ldpbeam"]),
    ]
)
