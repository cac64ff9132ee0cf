public import Handlers

#if canImport(FoundationEssentials)
    import FoundationEssentials
#else
    import Foundation
#endif

/// Lends a store in a fresh folder, and removes both at the end.
///
/// ```swift
/// @Test func remindsOnce() async throws {
///     try await withTestStore(registry: HandlerRegistry([Remind.self]), schemas: [shop]) { test in
///         let id = try test.store.step { step in
///             try step.schedule(Remind(customer: "Ada").durable, after: .seconds(3600))
///         }
///         try await test.advance(by: .seconds(7200))
///         #expect(try test.store.read { try $0.ending(of: id) }?.outcome == .result)
///     }
/// }
/// ```
///
/// - Parameters:
///   - registry: The handlers of the program under test; by default those that `@Handler` declared in it.
///   - schemas: The tables of modules and of the application.
///   - role: What part the program has; a worker leaves what is for the main program only.
///   - clock: The clock, for a test that shares it with a server or sets its wall; by default a new one.
///   - configuration: How the runner works; its `onFailure` gets the handlers that failed for good.
///   - isolation: The actor on which `body` runs.
///   - body: The test.
/// - Returns: What `body` returns.
/// - Throws: What `body` throws; `HandlerError` when the store cannot be opened; an error of the file system.
public func withTestStore<R>(
    registry: HandlerRegistry = .discovered(), schemas: [Schema] = [], role: HandlerStore.Role = .main,
    clock: VirtualClock = VirtualClock(), configuration: HandlerRunner.Configuration = .init(),
    isolation: isolated (any Actor)? = #isolation, _ body: (TestStore) async throws -> R
) async throws -> R {
    let folder = FileManager.default.temporaryDirectory.appending(component: "test-store-\(UUID())").path
    try FileManager.default.createDirectory(
        atPath: folder, withIntermediateDirectories: true, attributes: [.posixPermissions: 0o700])
    defer { try? FileManager.default.removeItem(atPath: folder) }
    let test = try TestStore(
        path: folder + "/test.db", registry: registry, schemas: schemas, role: role, clock: clock,
        configuration: configuration)
    defer { test.close() }
    return try await body(test)
}
