// swift-tools-version: 6.2
import PackageDescription

// The part of the app that needs nothing of Apple: the app and its extension link it, and it builds on Linux, too.
let package = Package(
    name: "Messenger",
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [.library(name: "MessengerCore", targets: ["MessengerCore"])],
    dependencies: [.package(name: "durable-handlers", path: "../..")],
    targets: [
        .target(
            name: "MessengerCore",
            dependencies: [
                .product(name: "Handlers", package: "durable-handlers"),
                .product(name: "XMPPAccount", package: "durable-handlers"),
                .product(name: "XMPPCore", package: "durable-handlers"),
            ],
            path: "Core")
    ],
    swiftLanguageModes: [.v6])
