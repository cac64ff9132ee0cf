// swift-tools-version: 6.2
// Targets are in the order in which data passes them; a dependency may only point up this list.
//
// docs/internals/architecture.md answers: what happens to a stanza, what happens between COMMIT and the socket, what a kill costs at
// each place, which process owns a stream, what ends a stream, how the death of a process is noticed, what a failed sync or a restored
// backup means, what each table holds.
// docs/internals/bounds.md lists the limit of everything that others can fill; docs/README.md lists the other pages.

import CompilerPluginSupport
import Foundation
import PackageDescription

let environment = ProcessInfo.processInfo.environment

// MARK: - swift-syntax: the toolchain's own libraries, or the package

/// `<toolchain>/usr/lib/swift/host`, where the toolchain keeps swift-syntax as shared libraries.
///
/// Found from `HANDLERS_SWIFT_SYNTAX_HOST`, or from the `swift` on PATH with its links resolved.
/// `HANDLERS_SWIFT_SYNTAX=package` asks for the swift-syntax package instead (needs a network).
func toolchainSwiftSyntax() -> String? {
    if environment["HANDLERS_SWIFT_SYNTAX"] == "package" { return nil }
    var candidates: [String] = []
    if let named = environment["HANDLERS_SWIFT_SYNTAX_HOST"] { candidates.append(named) }
    for folder in (environment["PATH"] ?? "").split(separator: ":") {
        let swift = URL(fileURLWithPath: String(folder)).appendingPathComponent("swift")
            .resolvingSymlinksInPath()
        let usr = swift.deletingLastPathComponent().deletingLastPathComponent()
        candidates.append(usr.appendingPathComponent("lib/swift/host").path)
    }
    return candidates.first { FileManager.default.fileExists(atPath: $0 + "/SwiftSyntaxMacros.swiftmodule") }
}

let hostLibraries = toolchainSwiftSyntax()
let swiftSyntaxModules = [
    "SwiftSyntax", "SwiftSyntaxMacros", "SwiftSyntaxBuilder", "SwiftCompilerPluginMessageHandling",
    "SwiftDiagnostics", "SwiftParser", "SwiftBasicFormat", "SwiftOperators", "SwiftSyntaxMacroExpansion",
]

/// Some versions of SwiftPM refuse unsafe flags in a dependency pinned by version, so only the macro's targets carry
/// them and the product `Handlers` stays free of them.
var macroSwiftSettings: [SwiftSetting] = []
var macroLinkerSettings: [LinkerSetting] = []
var macroDependencies: [Target.Dependency] = []
var pluginDependencies: [Target.Dependency] = []
var packageDependencies: [Package.Dependency] = []
if let hostLibraries {
    macroSwiftSettings = [.unsafeFlags(["-I", hostLibraries])]
    macroLinkerSettings = [
        .unsafeFlags(
            ["-L", hostLibraries] + swiftSyntaxModules.map { "-l" + $0 } + [
                "-Xlinker", "-rpath", "-Xlinker", hostLibraries,
            ])
    ]
} else {
    // One version: a toolchain that brings its own swift-syntax deletes a Package.resolved, as the package has no dependencies there.
    packageDependencies = [.package(url: "https://github.com/swiftlang/swift-syntax.git", exact: "603.0.0")]
    macroDependencies = [
        "SwiftSyntax", "SwiftSyntaxMacros", "SwiftSyntaxBuilder", "SwiftDiagnostics", "SwiftParser",
        "SwiftSyntaxMacroExpansion",
    ].map { .product(name: $0, package: "swift-syntax") }
    pluginDependencies = [.product(name: "SwiftCompilerPlugin", package: "swift-syntax")]
    macroSwiftSettings = [.define("SWIFT_SYNTAX_PACKAGE")]
}

/// Resolves all symbols when the program starts. The dynamic linker otherwise resolves one at its first call, and saves the vector
/// registers on the stack meanwhile, where a key that OpenSSL has just used stays.
let bindsAtStart: [LinkerSetting] = [
    .unsafeFlags(["-Xlinker", "-z", "-Xlinker", "now"], .when(platforms: [.linux]))
]

// MARK: - Targets

#if canImport(Darwin)
    let isOnMac = true
#else
    let isOnMac = false
#endif

let package = Package(
    name: "durable-handlers",
    // What Mutex, Atomic and TaskExecutor need. docs/internals/darwin.md says what is known about Apple's systems.
    platforms: [.macOS(.v15), .iOS(.v18)],
    products: [
        .library(name: "Handlers", targets: ["Handlers"]),
        .library(name: "HandlerMacrosSupport", targets: ["HandlerMacrosSupport"]),
        .library(name: "HandlersTestKit", targets: ["HandlersTestKit"]),
        .library(name: "HandlersDashboard", targets: ["HandlersDashboard"]),
        // Links libpq.
        .library(name: "HandlersPostgres", targets: ["HandlersPostgres"]),
        .library(name: "XMPPCore", targets: ["XMPPCore"]),
        .library(name: "XMPPAccount", targets: ["IQTracker", "XMPPAccount", "XMPPModules", "XMPPTransport"]),
        .library(name: "PubSub", targets: ["PubSub"]),
        // Links libcurl.
        .library(name: "Upload", targets: ["Upload"]),
        // Links libomemo-c, which is under the GPL, version 3: a program that links this product is bound by that license.
        .library(name: "Omemo", targets: ["Omemo"]),
        .library(name: "XMPPTestKit", targets: ["AccountTestKit", "XMPPTestKit"]),
        .executable(name: "pushwake", targets: ["pushwake"]),
        // Links libomemo-c, too.
        .executable(name: "pushwake-omemo", targets: ["pushwake-omemo"]),
        .executable(name: "pushwake-world", targets: ["pushwake-world"]),
        // Links libpq, too.
        .executable(name: "pushwake-postgres", targets: ["pushwake-postgres"]),
        // Links libmicrohttpd and libpq.
        .executable(name: "pushwake-dashboard", targets: ["pushwake-dashboard"]),
    ],
    traits: [
        .trait(
            name: "Failpoints", description: "Lets tests kill a process at named places.")
    ],
    dependencies: packageDependencies,
    targets: [
        // Apple's SDKs have these two.
        .systemLibrary(
            name: "CSQLite", pkgConfig: isOnMac ? nil : "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
        .systemLibrary(
            name: "CXML2", pkgConfig: isOnMac ? nil : "libxml-2.0", providers: [.apt(["libxml2-dev"])]),
        .systemLibrary(
            name: "COpenSSL", pkgConfig: "openssl",
            providers: [.apt(["libssl-dev"]), .brew(["openssl@3", "pkgconf"])]),
        .systemLibrary(
            name: "CAres", pkgConfig: "libcares",
            providers: [.apt(["libc-ares-dev"]), .brew(["c-ares", "pkgconf"])]),
        // Only HandlersPostgres, its tests and its benchmarks may depend on it. Of the commands, pushwake-postgres links it.
        .systemLibrary(
            name: "CPostgres", pkgConfig: "libpq",
            providers: [.apt(["libpq-dev"]), .brew(["libpq", "pkgconf"])]),
        // Only DashboardServer may depend on it.
        .systemLibrary(
            name: "CMicrohttpd", pkgConfig: "libmicrohttpd",
            providers: [.apt(["libmicrohttpd-dev"]), .brew(["libmicrohttpd", "pkgconf"])]),
        // Only Upload and its tests may depend on it.
        .systemLibrary(
            name: "CCurl", pkgConfig: "libcurl",
            providers: [.apt(["libcurl4-openssl-dev"]), .brew(["curl", "pkgconf"])]),
        // GPL, version 3: only Omemo, its tests and its benchmarks may depend on it.
        .systemLibrary(name: "COmemo", pkgConfig: "libomemo-c", providers: [.apt(["libomemo-c-dev"])]),
        .target(name: "CHandlerRecords"),
        .target(name: "CPlatform"),
        // The system calls of Linux and Darwin: no other target of the library imports Glibc or Darwin.
        .target(name: "Platform", dependencies: ["CPlatform"]),
        // `Timestamp`, `ForeignText` and other types that Handlers and XMPPCore both use. Neither of them depends on the other.
        .target(name: "Timestamps", dependencies: ["Platform"]),
        // Bound handlers end once (Step.end, Ending). Rows: HandlerTable, HandlerCalls. Lanes, chains, joins, calendars, journals:
        // HandlerFeatures. Clocks: Step.schedule. Leases: Lease. Older and newer programs: Schema, DurableHandler.version. Which processes
        // are alive: ProcessSlot. Places for a kill: Failpoint.
        .target(name: "Handlers", dependencies: ["CSQLite", "CHandlerRecords", "Platform", "Timestamps"]),
        // @Handler: its expansion, the compiler plugin, its declaration.
        .target(
            name: "HandlerExpander", dependencies: macroDependencies, swiftSettings: macroSwiftSettings,
            linkerSettings: macroLinkerSettings),
        .macro(
            name: "HandlerMacros", dependencies: ["HandlerExpander"] + pluginDependencies,
            swiftSettings: macroSwiftSettings, linkerSettings: macroLinkerSettings),
        .target(name: "HandlerMacrosSupport", dependencies: ["HandlerMacros", "Handlers"]),
        // A store on PostgreSQL. Statements and transactions: PostgresConnection; what goes over the wire: PostgresLink; which machines
        // have the database open: PostgresNodes.
        .target(name: "HandlersPostgres", dependencies: ["CPostgres", "Handlers", "Platform"]),
        // A store for one test, with a clock that the test sets; random numbers from a seed.
        .target(name: "HandlersTestKit", dependencies: ["Handlers"]),
        // A page over a store, as a function from requests to responses: no HTTP server. Who may do what: DashboardAccess, Dashboard+Guards.
        .target(
            name: "HandlersDashboard", dependencies: ["Handlers"],
            resources: [
                "acts.js", "charts.js", "core.js", "dashboard.css", "dashboard.html", "dashboard.svg",
                "handler.js",
                "live.js", "main.js", "pages.js",
            ].map { .embedInCode("Resources/" + $0) }),
        // Addresses, elements, stanzas. XML that cannot be read: StreamScanner. Limits of a stanza: ParserLimits, ForeignBounds.
        .target(name: "XMPPCore", dependencies: ["CXML2", "Platform", "Timestamps"]),
        // Name lookup, sockets, TLS, SASL exchanges.
        .target(name: "XMPPTransport", dependencies: ["CAres", "COpenSSL", "Platform", "XMPPCore"]),
        // Requests of both directions. Which answer belongs to a request: PeerRule, PendingIQTable.
        .target(name: "IQTracker", dependencies: ["Handlers", "XMPPCore"]),
        // One account's stream: Account.swift shows the path of a stanza. Counting h: StreamManagement. The fence: OwnerStep. Owner
        // and takeover: Ownership. Unreadable stanzas: InboundStep+Unreadable. After COMMIT: AccountLoop+Step. Stanzas to send: Outbox.
        .target(
            name: "XMPPAccount",
            dependencies: ["Handlers", "IQTracker", "Platform", "XMPPCore", "XMPPTransport"]),
        // Roster, chat, archives, rooms, push and others, each through AccountModule.
        .target(
            name: "XMPPModules",
            dependencies: ["Handlers", "IQTracker", "XMPPAccount", "XMPPCore", "XMPPTransport"]),
        // Publish-subscribe: operations, events, nodes with typed values.
        .target(
            name: "PubSub",
            dependencies: [
                "Handlers", "IQTracker", "XMPPAccount", "XMPPCore", "XMPPModules", "XMPPTransport",
            ]),
        // Files on a web server: a chain of stored handlers.
        .target(
            name: "Upload",
            dependencies: [
                "CCurl", "Handlers", "IQTracker", "Platform", "XMPPAccount", "XMPPCore", "XMPPModules",
                "XMPPTransport",
            ]),
        // End-to-end encryption. Ratchet, content and count commit in one step: MessageTaken.
        .target(
            name: "Omemo",
            dependencies: [
                "COmemo", "COpenSSL", "Handlers", "Platform", "PubSub", "XMPPAccount", "XMPPCore",
                "XMPPTransport", "XMPPModules",
            ]),
        // A scripted server with faults, and test certificates.
        .target(
            name: "XMPPTestKit",
            dependencies: ["COpenSSL", "HandlersTestKit", "Platform", "XMPPCore", "XMPPTransport"]),
        // An account without server, for tests of handlers and modules.
        .target(
            name: "AccountTestKit", dependencies: ["Handlers", "IQTracker", "XMPPAccount", "XMPPCore"]),
        // Prosody, ejabberd, PostgreSQL, peers and proxies as child processes, for the simulation and for the tests.
        .target(
            name: "TestServers", dependencies: ["Platform", "XMPPCore", "XMPPTestKit"],
            resources: [.embedInCode("Resources/peer.py"), .embedInCode("Resources/slixmpp_peer.py")]),
        // Simulated worlds, in which a seed decides the disk, the network, the clock and the order of all events. CWorld has the
        // hooks of Swift's executor and SQLite's allocator.
        .target(name: "CWorld", dependencies: ["CSQLite"]),
        .target(
            name: "World",
            dependencies: [
                "AccountTestKit", "CSQLite", "CWorld", "HandlerMacrosSupport", "Handlers", "HandlersTestKit",
                "Platform", "PubSub", "XMPPAccount", "XMPPCore", "XMPPModules", "XMPPTestKit",
                "XMPPTransport",
            ]),
        // The simulation of main and worker with kills, a verdict and a report; the storm; the app server for pushes.
        .target(
            name: "Simulation",
            dependencies: [
                "Handlers", "HandlerMacrosSupport", "HandlersTestKit", "Platform", "PubSub", "XMPPAccount",
                "XMPPCore",
                "XMPPModules",
                "TestServers", "XMPPTestKit", "XMPPTransport",
            ],
            resources: [
                .embedInCode("Resources/report.html"), .embedInCode("Resources/report.css"),
                .embedInCode("Resources/report.js"),
            ]),
        // Everything of pushwake except its entry point, for tests and fuzz targets: commands, help, a client, the inspection of
        // stores.
        .target(
            name: "PushwakeCommands",
            dependencies: [
                "Handlers", "HandlerMacrosSupport", "HandlersTestKit", "Platform", "PubSub", "Simulation",
                "XMPPAccount", "XMPPCore",
                "XMPPModules", "TestServers", "XMPPTestKit", "XMPPTransport",
            ]),
        .executableTarget(
            name: "pushwake", dependencies: ["PushwakeCommands"],
            // These flags save a megabyte of relocations and a megabyte of exported names, in processes with limited memory.
            // Exported names would also keep unused code.
            linkerSettings: [
                .unsafeFlags(
                    [
                        "-use-ld=lld", "-Xlinker", "-z", "-Xlinker", "pack-relative-relocs", "-Xlinker",
                        "--no-export-dynamic",
                    ], .when(platforms: [.linux]))
            ]),

        // The program of `pushwake world`. It is separate from pushwake, because it takes over the executor of its process.
        .target(
            name: "WorldCommands",
            dependencies: ["Handlers", "PushwakeCommands", "Simulation", "World", "XMPPCore"]),
        .executableTarget(name: "pushwake-world", dependencies: ["WorldCommands"]),

        // The program of `pushwake omemo`. It is separate from pushwake, which must build without libomemo-c.
        .executableTarget(
            name: "pushwake-omemo",
            dependencies: [
                "Handlers", "Omemo", "PushwakeCommands", "Simulation", "World", "WorldCommands",
                "XMPPAccount",
                "XMPPCore", "XMPPModules",
            ], linkerSettings: bindsAtStart),

        // The commands of pushwake for a store on PostgreSQL. It is separate from pushwake, which must build without libpq.
        .executableTarget(
            name: "pushwake-postgres",
            dependencies: [
                "Handlers", "HandlersPostgres", "PubSub", "PushwakeCommands", "XMPPAccount", "XMPPCore",
                "XMPPModules",
            ]),

        // Serves the page on the loopback address, with libmicrohttpd.
        .target(name: "DashboardServer", dependencies: ["CMicrohttpd", "HandlersDashboard"]),
        // The program of `pushwake dashboard`. It is separate from pushwake, which must build without libmicrohttpd.
        .executableTarget(
            name: "pushwake-dashboard",
            dependencies: [
                "DashboardServer", "Handlers", "HandlersDashboard", "HandlersPostgres", "PushwakeCommands",
                "XMPPCore",
            ]),

        .target(name: "CFloor", dependencies: ["CSQLite", "CXML2"], path: "Benchmarks/CFloor"),
        .target(name: "CPostgresFloor", dependencies: ["CPostgres"], path: "Benchmarks/CPostgresFloor"),
        .target(name: "BenchmarkHandlers", dependencies: ["Handlers"], path: "Benchmarks/BenchmarkHandlers"),
        .executableTarget(
            name: "cold-start", dependencies: ["BenchmarkHandlers", "Handlers"], path: "Benchmarks/ColdStart"),
        .executableTarget(
            name: "session-start", dependencies: ["Handlers", "XMPPAccount", "XMPPCore", "XMPPModules"],
            path: "Benchmarks/SessionStart"),
        .executableTarget(
            name: "stream-owner", dependencies: ["Handlers", "XMPPAccount", "XMPPCore", "XMPPModules"],
            path: "Benchmarks/StreamOwner"),
        .executableTarget(
            name: "stream-client", dependencies: ["Handlers", "XMPPAccount", "XMPPCore", "XMPPModules"],
            path: "Benchmarks/StreamClient"),
        .executableTarget(
            name: "account-host", dependencies: ["Handlers", "XMPPAccount", "XMPPCore", "XMPPModules"],
            path: "Benchmarks/AccountHost"),
        // The order of two snippets, which are linked there, to be killed under load.
        .target(
            name: "OrderProgram", dependencies: ["Handlers", "HandlersTestKit", "Platform"],
            path: "Benchmarks/OrderKills/Program"),
        .executableTarget(
            name: "order-workflow", dependencies: ["HandlerMacrosSupport", "Handlers", "OrderProgram"],
            path: "Benchmarks/OrderKills/Workflow", swiftSettings: [.define("ORDER_KILLS")]),
        .executableTarget(
            name: "order-handlers", dependencies: ["HandlerMacrosSupport", "Handlers", "OrderProgram"],
            path: "Benchmarks/OrderKills/Handlers", swiftSettings: [.define("ORDER_KILLS")]),
        .executableTarget(
            name: "postgres-steps",
            dependencies: ["BenchmarkHandlers", "Handlers", "HandlersPostgres", "Platform"],
            path: "Benchmarks/PostgresSteps"),
        .executableTarget(
            name: "benchmarks",
            dependencies: [
                "BenchmarkHandlers", "CFloor", "Handlers", "TestServers", "XMPPAccount", "XMPPCore",
                "XMPPModules", "XMPPTestKit",
            ],
            path: "Benchmarks/benchmarks"),

        .target(
            name: "ParserVerifier", dependencies: ["HandlersTestKit", "XMPPCore"],
            path: "Tests/ParserVerifier"),
        .target(name: "TestThreads", path: "Tests/TestThreads"),
        // Real servers, accounts and independent clients on them, for the targets below that are tested there.
        .target(
            name: "TestSupport",
            dependencies: [
                "CSQLite", "Handlers", "HandlersPostgres", "Platform", "TestServers", "TestThreads",
                "XMPPAccount", "XMPPCore", "XMPPTestKit", "XMPPTransport",
            ],
            path: "Tests/TestSupport"),
        // An account on a scripted server and an application for it, for the tests of the account and of its modules.
        .target(
            name: "AccountTestSupport",
            dependencies: [
                "Handlers", "TestServers", "TestSupport", "TestThreads", "XMPPAccount", "XMPPCore",
                "XMPPTestKit",
            ],
            path: "Tests/AccountTestSupport"),
        // Processes for the tests below to kill.
        .executableTarget(
            name: "HandlersTestProgram", dependencies: ["Handlers"], path: "Tests/HandlersTestProgram"),
        .testTarget(name: "PlatformTests", dependencies: ["Platform", "TestSupport", "TestThreads"]),
        .testTarget(
            name: "HandlersTests",
            dependencies: [
                "Handlers", "HandlerMacrosSupport", "HandlersPostgres", "HandlersTestKit",
                "HandlersTestProgram", "TestServers", "TestSupport", "TestThreads", "World",
            ]),
        .testTarget(name: "WorkflowsTests", dependencies: ["Handlers", "HandlersTestKit", "TestThreads"]),
        .testTarget(
            name: "OperateCommandTests",
            dependencies: ["Handlers", "PushwakeCommands", "TestThreads", "XMPPAccount", "XMPPCore"]),
        .testTarget(
            name: "OperatingTests",
            dependencies: ["Handlers", "HandlersTestKit", "TestSupport", "TestThreads"]),
        // Machines that share accounts, and die: `make fleet`.
        .executableTarget(
            name: "fleet-proof",
            dependencies: [
                "Handlers", "HandlersPostgres", "Platform", "Simulation", "TestServers", "XMPPAccount",
                "XMPPCore", "XMPPTestKit",
            ],
            path: "Tests/FleetProof"),
        .executableTarget(
            name: "NodeTestProgram",
            dependencies: ["Handlers", "HandlersPostgres", "XMPPAccount", "XMPPCore"],
            path: "Tests/NodeTestProgram"),
        .testTarget(
            name: "HandlersPostgresTests",
            dependencies: [
                "Handlers", "HandlersPostgres", "NodeTestProgram", "Platform", "TestServers", "TestSupport",
                "TestThreads", "XMPPTestKit", "fleet-proof",
            ]),
        // What every handler leaves behind and is limited by, on the public interface and a virtual clock: quick to build.
        .testTarget(
            name: "HandlersResultsTests", dependencies: ["Handlers", "HandlersTestKit", "TestThreads"]),
        .testTarget(
            name: "HandlersDashboardTests",
            dependencies: ["Handlers", "HandlersDashboard", "HandlersTestKit", "TestThreads"]),
        .testTarget(
            name: "DashboardServerTests",
            dependencies: [
                "DashboardServer", "Handlers", "HandlersDashboard", "HandlersTestKit", "TestThreads",
            ]),
        .testTarget(
            name: "HandlersTestKitTests",
            dependencies: ["Handlers", "HandlersTestKit", "TestServers", "TestThreads"]),
        // A program that the kill tests of OMEMO kill.
        .executableTarget(
            name: "omemo-device",
            dependencies: ["Handlers", "Omemo", "XMPPAccount", "XMPPCore", "XMPPModules"],
            path: "Tests/OmemoDevice", linkerSettings: bindsAtStart),
        .testTarget(
            name: "HandlerMacrosTests", dependencies: ["HandlerExpander", "TestThreads"],
            swiftSettings: macroSwiftSettings,
            linkerSettings: macroLinkerSettings),
        .testTarget(
            name: "XMPPCoreTests",
            dependencies: ["HandlersTestKit", "ParserVerifier", "TestThreads", "XMPPCore"]),
        .testTarget(
            name: "XMPPTransportTests",
            dependencies: [
                "COpenSSL", "HandlersTestKit", "TestServers", "TestSupport", "TestThreads", "XMPPTestKit",
                "XMPPTransport",
            ]),
        .testTarget(name: "IQTrackerTests", dependencies: ["IQTracker", "TestThreads"]),
        .testTarget(
            name: "XMPPAccountTests",
            dependencies: [
                "AccountTestSupport", "HandlersPostgres", "HandlersTestKit", "NodeTestProgram",
                "ParserVerifier", "TestServers", "TestSupport", "TestThreads", "XMPPAccount", "XMPPTestKit",
                "XMPPTransport",
            ]),
        .testTarget(
            name: "XMPPModulesTests",
            dependencies: [
                "AccountTestKit", "AccountTestSupport", "CSQLite", "HandlersTestKit", "HandlersTestProgram",
                "IQTracker", "TestServers", "TestSupport", "TestThreads", "XMPPAccount", "XMPPModules",
                "XMPPTestKit", "XMPPTransport",
            ],
            resources: [
                .embedInCode("Servers/contacts_peer.py"), .embedInCode("Servers/messenger_peer.py"),
                .embedInCode("Servers/rooms_peer.py"), .embedInCode("Servers/values_peer.py"),
            ]),
        // A module as another package would write it: without access to declarations of this package that are not public.
        .testTarget(
            name: "OutsideModuleTests",
            dependencies: [
                "Handlers", "TestThreads", "XMPPAccount", "XMPPCore", "XMPPModules", "XMPPTestKit",
            ],
            packageAccess: false),
        // A program that the kill tests of PubSub kill.
        .executableTarget(
            name: "pubsub-program",
            dependencies: ["Handlers", "PubSub", "XMPPAccount", "XMPPCore", "XMPPModules"],
            path: "Tests/PubSubProgram"),
        .testTarget(
            name: "PubSubTests",
            dependencies: [
                "AccountTestKit", "PubSub", "TestServers", "TestSupport", "TestThreads", "XMPPModules",
                "XMPPTestKit",
                "pubsub-program",
            ],
            resources: [
                .embedInCode("Events/displayed_peer.py"), .embedInCode("Events/pep_peer.py"),
                .embedInCode("Servers/operations_peer.py"),
            ]),
        // A program that the kill tests of Upload kill.
        .executableTarget(
            name: "upload-program",
            dependencies: ["Handlers", "Upload", "XMPPAccount", "XMPPCore", "XMPPModules"],
            path: "Tests/UploadProgram"),
        .testTarget(
            name: "UploadTests",
            dependencies: [
                "AccountTestKit", "IQTracker", "TestServers", "TestSupport", "TestThreads", "Upload",
                "XMPPTestKit", "XMPPTransport",
                "upload-program", "XMPPModules",
            ],
            resources: [.embedInCode("Support/upload_peer.py"), .embedInCode("Support/web_server.py")]),
        .testTarget(
            name: "OmemoTests",
            dependencies: [
                "AccountTestKit", "COmemo", "CSQLite", "HandlersPostgres", "Omemo", "TestServers",
                "TestSupport", "TestThreads", "XMPPTestKit",
                "XMPPTransport",
                "omemo-device",
                "pushwake", "pushwake-omemo", "XMPPModules",
            ],
            exclude: ["EarlierStore/message.xml", "EarlierStore/store.sql"],
            resources: [.embedInCode("Support/omemo_peer.py")], linkerSettings: bindsAtStart),
        .testTarget(
            name: "XMPPTestKitTests",
            dependencies: ["TestSupport", "TestThreads", "XMPPTestKit", "XMPPTransport"]),
        // A PostgreSQL server for programs in other languages, and for a test that kills it.
        .executableTarget(
            name: "postgres-program", dependencies: ["TestServers"], path: "Tests/PostgresProgram"),
        .testTarget(
            name: "TestServersTests",
            dependencies: [
                "Platform", "TestServers", "TestSupport", "TestThreads", "XMPPTestKit", "XMPPTransport",
                "postgres-program",
            ]),
        .testTarget(
            name: "PushwakeTests",
            dependencies: [
                "HandlersPostgres", "HandlersTestKit", "NodeTestProgram", "PushwakeCommands", "Simulation",
                "TestServers", "TestSupport", "TestThreads", "XMPPModules", "XMPPTestKit", "XMPPTransport",
                "pushwake", "pushwake-omemo", "pushwake-postgres",
            ]),
        // A program whose tasks a seed runs: the hooks of the runtime are those of a whole process.
        .executableTarget(
            name: "WorldTestProgram", dependencies: ["CWorld", "Handlers", "HandlersTestKit", "World"],
            path: "Tests/WorldTestProgram"),
        .testTarget(
            name: "WorldTests",
            dependencies: [
                "Handlers", "HandlersTestKit", "TestSupport", "TestThreads", "World", "WorldCommands",
                "WorldTestProgram", "pushwake-omemo", "pushwake-world",
            ], exclude: ["seeds.txt"]),
        .testTarget(name: "BenchmarksTests", dependencies: ["TestThreads", "benchmarks"]),
        .testTarget(
            name: "HandlersLockTests",
            dependencies: [
                "CSQLite", "Handlers", "HandlersPostgres", "IQTracker", "Omemo", "PubSub",
                "PushwakeCommands", "Simulation",
                "TestServers", "TestSupport", "TestThreads", "Upload", "XMPPAccount", "XMPPCore",
                "XMPPModules",
                "XMPPTestKit", "XMPPTransport",
            ]),
    ],
    swiftLanguageModes: [.v6]
)

// Apart from the other benchmarks because it links libomemo-c, and only when asked for because it looks inside Omemo:
// scripts/bench.sh builds it with -enable-testing.
if environment["OMEMO_BENCHMARKS"] != nil {
    package.targets += [
        .target(
            name: "COmemoFloor", dependencies: ["COmemo", "COpenSSL", "CSQLite", "CXML2"],
            path: "Benchmarks/COmemoFloor"),
        .executableTarget(
            name: "omemo-benchmarks",
            dependencies: [
                "COmemo", "COmemoFloor", "Handlers", "Omemo", "XMPPAccount", "XMPPCore", "XMPPModules",
                "XMPPTestKit",
            ],
            path: "Benchmarks/omemo"),
    ]
}

// What takes in foreign or stored bytes, with what must hold for any: tests replay what `make fuzz` found.
let fuzzed: [Target.Dependency] = [
    "COpenSSL", "CSQLite", "Handlers", "IQTracker", "Omemo", "Platform", "PubSub", "PushwakeCommands",
    "Simulation", "Upload", "XMPPAccount", "XMPPCore", "XMPPModules", "XMPPTransport",
]
if environment["FUZZING"] == nil {
    package.targets.append(
        .testTarget(
            name: "FuzzTests", dependencies: fuzzed + ["TestThreads"], path: "Fuzz/Sources",
            exclude: ["Fuzzer"], sources: ["Targets", "Replay"]))
} else {
    // No program can be linked with another one: of pushwake stays what is fuzzed, with little around it.
    package.products.removeAll { $0.name.hasPrefix("pushwake") }
    let cut = [
        "PushwakeCommands", "Simulation", "WorldCommands", "pushwake", "pushwake-omemo",
        "pushwake-dashboard", "pushwake-postgres", "pushwake-world",
    ]
    package.targets.removeAll { $0.type == .test || cut.contains($0.name) }
    package.targets += [
        .target(
            name: "Simulation", dependencies: ["Handlers", "XMPPAccount", "XMPPCore", "XMPPTransport"],
            sources: [
                "AppServer/ComponentStream.swift", "AppServer/PushDesk.swift", "SimulationError.swift",
            ]),
        .target(
            name: "PushwakeCommands", dependencies: ["Handlers", "XMPPAccount", "XMPPCore", "XMPPModules"],
            exclude: ["Inspect/StoreRepair.swift"], sources: ["Inspect", "Terminal.swift"]),
        .systemLibrary(name: "CLibFuzzer", path: "Fuzz/CLibFuzzer"),
        .executableTarget(
            name: "fuzz", dependencies: fuzzed + ["CLibFuzzer"], path: "Fuzz/Sources",
            sources: ["Targets", "Fuzzer"],
            // The default linker fails at what AddressSanitizer exports.
            linkerSettings: [.unsafeFlags(["-use-ld=lld"], .when(platforms: [.linux]))]),
    ]
}

// Runs Darwin's part of Platform on Linux, over a kqueue made of epoll: `HANDLERS_KQUEUE=platform` for its tests alone,
// `HANDLERS_KQUEUE=all` for everything.
let kqueue = environment["HANDLERS_KQUEUE"]
if kqueue != nil {
    package.targets.append(
        .target(name: "KqueueShim", path: "Tests/KqueueShim", publicHeadersPath: "include"))
    for target in package.targets {
        if ["CPlatform", "Platform"].contains(target.name) { target.dependencies.append("KqueueShim") }
        if target.name == "CPlatform" { target.cSettings = [.define("DH_KQUEUE")] }
        if ["Platform", "PlatformTests"].contains(target.name) {
            target.swiftSettings = [.define("DH_KQUEUE")]
        }
    }
}

// A Mac builds the libraries and the macro, and runs the tests that need no servers and no other programs: the rest calls Linux itself.
if isOnMac || kqueue == "platform" {
    let tests =
        isOnMac
        ? ["HandlerMacrosTests", "IQTrackerTests", "PlatformTests"] : ["PlatformTests"]
    var kept = Set(tests)
    package.targets.removeAll { $0.name == "TestSupport" }
    // Homebrew may not have libomemo-c.
    let hasOmemo = ["/opt/homebrew", "/usr/local"].contains {
        FileManager.default.fileExists(atPath: $0 + "/include/omemo")
    }
    package.products.removeAll {
        !isOnMac || $0 is Product.Executable || !hasOmemo && $0.name == "Omemo"
    }
    kept.formUnion(package.products.compactMap { $0 as? Product.Library }.flatMap(\.targets))
    while true {
        let needed = package.targets.filter { kept.contains($0.name) }.flatMap(\.dependencies).compactMap {
            dependency -> String? in
            if case .byNameItem(let name, _) = dependency { name } else { nil }
        }
        if kept.isSuperset(of: needed) { break }
        kept.formUnion(needed)
    }
    package.targets.removeAll { !kept.contains($0.name) }
    package.targets.append(
        .target(
            name: "TestSupport", path: "Tests/TestSupport",
            sources: ["RealDisk.swift", "TemporaryFolder.swift"]))
}

/// Debug builds of what the tests run are optimized, with assertions: they run several times as fast, and so do the tests.
/// `HANDLERS_UNOPTIMIZED=1` leaves that out, for a debugger. It is left out in a checkout of another package, too, because SwiftPM
/// refuses unsafe flags in a dependency pinned by version.
let optimizesDebug =
    environment["HANDLERS_UNOPTIMIZED"] == nil && !Context.packageDirectory.contains("/checkouts/")

for target in package.targets where ![.system, .plugin, .binary].contains(target.type) {
    target.swiftSettings =
        (target.swiftSettings ?? []) + [
            .enableUpcomingFeature("ExistentialAny"),
            .enableUpcomingFeature("InternalImportsByDefault"),
            .treatAllWarnings(as: .error),
        ]
    if optimizesDebug, target.type != .test {
        target.swiftSettings?.append(
            .unsafeFlags(["-O", "-assert-config", "Debug"], .when(configuration: .debug)))
    }
}
