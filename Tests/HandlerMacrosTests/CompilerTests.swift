import Foundation
import TestThreads
import Testing

/// What the compiler says about the expansion, where the macro itself sees only syntax.
@Suite("The expansion of @Handler, compiled", .ownThread)
struct CompilerTests {
    /// What the expansion uses, and nothing else, in a module called as the real one.
    private static let handlers = """
        public struct Call<Context: Sendable>: ~Copyable { public let context: Context }
        public struct AsyncCall<Context: Sendable>: Sendable { public let context: Context }
        public protocol RestorableContext: Sendable {}
        public struct RetryPolicy: Sendable { static let never = RetryPolicy(); init(attempts: Int = 1) {} }
        public enum Availability: Sendable { case everywhere, mainOnly }
        public struct HandlerArgument: Sendable { init(_: String, _: Any.Type, hasDefault: Bool = false) {} }
        public struct Record { mutating func rename(_ old: String, to new: String) {} }
        public struct HandlerError: Error {}
        public struct Durable<Context: Sendable>: Codable, Sendable {
            init<H: DurableHandler>(_ handler: H) throws(HandlerError) where H.Context == Context {}
        }
        public protocol DurableHandler: Codable, Sendable {
            associatedtype Context: Sendable
            static var id: String { get }
            static var version: Int { get }
            static var aliases: [String] { get }
            static func upcast(_ arguments: inout Record, from version: Int) throws
            static var retry: RetryPolicy { get }
            static var availability: Availability { get }
            static var storedArguments: [HandlerArgument] { get throws(HandlerError) }
        }
        public protocol Handler: DurableHandler { func run(_ call: borrowing Call<Context>) throws }
        public protocol AsyncHandler: DurableHandler where Context: RestorableContext {
            func run(_ call: AsyncCall<Context>) async throws
        }
        extension DurableHandler {
            public static var version: Int { 1 }
            public static var aliases: [String] { [] }
            public static func upcast(_ arguments: inout Record, from version: Int) throws {}
            public static var retry: RetryPolicy { .never }
            public static var availability: Availability { .everywhere }
            public static var storedArguments: [HandlerArgument] { get throws(HandlerError) { [] } }
        }
        public func __registerHandler<H: DurableHandler>(
            _ type: H.Type, in registry: UnsafeRawPointer, file: StaticString, line: UInt
        ) {}
        public func __resolveInstance<T>(_ instance: T, handler: String, path: String) throws(HandlerError) -> T {
            instance
        }
        public func __resolveInstance<T>(_ instance: T?, handler: String, path: String) throws(HandlerError) -> T {
            if let instance { instance } else { throw HandlerError() }
        }
        public struct Reply: Sendable { public struct Inner: Sendable {} }
        public struct Slot: RestorableContext {}
        """

    /// The compiler's errors, warnings among them: the source line each stands in, and what it says.
    private func errors(in source: String) throws -> [[String]] {
        let folder = FileManager.default.temporaryDirectory.appending(path: "handler-macros-\(UUID())")
        try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
        defer { try? FileManager.default.removeItem(at: folder) }
        let expanded = Expansion(source).source
        let file = folder.appending(path: "Till.swift")
        let stub = folder.appending(path: "Handlers.swift")
        try expanded.write(to: file, atomically: true, encoding: .utf8)
        try Self.handlers.write(to: stub, atomically: true, encoding: .utf8)
        let sources = URL(filePath: #filePath).deletingLastPathComponent().deletingLastPathComponent()
            .deletingLastPathComponent().appending(path: "Sources")
        let arguments = sources.appending(path: "HandlerMacrosSupport/Arguments.swift")

        let compiler = Process()
        compiler.executableURL = URL(filePath: "/usr/bin/env")
        compiler.arguments = [
            "swiftc", "-typecheck", "-swift-version", "6", "-warnings-as-errors", "-module-name", "Handlers",
            "-package-name", "till", "-diagnostic-style", "llvm", file.path, stub.path, arguments.path,
        ]
        let output = Pipe()
        compiler.standardError = output
        try compiler.run()
        let text = String(decoding: try output.fileHandleForReading.readToEnd() ?? Data(), as: UTF8.self)
        compiler.waitUntilExit()

        let lines = expanded.split(separator: "\n", omittingEmptySubsequences: false)
        let found = text.split(separator: "\n").filter { $0.contains(" error: ") }.map { report in
            let parts = report.split(separator: ":", maxSplits: 3).map {
                $0.trimmingCharacters(in: .whitespaces)
            }
            let line = Int(parts[1]).map { lines[$0 - 1].trimmingCharacters(in: .whitespaces) } ?? ""
            return [line, parts.last ?? ""]
        }
        if found.isEmpty { #expect(compiler.terminationStatus == 0, "\(text)") }
        return found
    }

    @Test("H10 an argument that is not Codable is one error, in a line that shows the argument")
    func notCodable() throws {
        let found = try errors(
            in: """
                struct Coin: Sendable {}
                enum Till {
                    @Handler("till.paid")
                    static func paid(_ call: borrowing Call<Reply>, number: Int, coin: Coin, other: Int? = nil) {}
                }
                """)
        #expect(
            found == [
                [
                    "var coin: __BoundArgument<Coin>",
                    "error: type 'Coin' does not conform to protocol 'Decodable'",
                ]
            ])
    }

    @Test("H10 an argument that is not Sendable is one error, in a line that shows the argument")
    func notSendable() throws {
        let found = try errors(
            in: """
                final class Coin: Codable { var value = 1 }
                enum Till {
                    @Handler("till.paid") static func paid(_ call: borrowing Call<Reply>, coin: Coin) {}
                }
                """)
        #expect(
            found == [
                [
                    "var coin: __BoundArgument<Coin>",
                    "error: stored property 'coin' of 'Sendable'-conforming struct 'Handler_paid' "
                        + "has non-Sendable type 'Coin'",
                ]
            ])
    }

    @Test("H10 a path that does not lead to the instance is an error in the line that follows it")
    func wrongPath() throws {
        let found = try errors(
            in: """
                final class Till: Sendable {
                    @Handler("till.paid", on: "till") func paid(_ call: borrowing Call<Reply>) {}
                }
                """)
        #expect(
            found == [
                [
                    "call.context.till, handler: Self.id, path: \"till\")",
                    "error: value of type 'Reply' has no member 'till'",
                ]
            ])
    }

    @Test("H10 a context that cannot be kept for an async handler is named by the compiler")
    func contextNotRestorable() throws {
        let found = try errors(
            in: """
                enum Till {
                    @Handler("till.paid") static func paid(_ call: AsyncCall<Reply>, x: Int) async throws {}
                }
                """)
        let line = "nonisolated struct Handler_paid: Handlers::AsyncHandler {"
        #expect(
            found == [
                [line, "error: type 'Till.Handler_paid' does not conform to protocol 'AsyncHandler'"],
                [
                    line,
                    "error: type 'Till.Handler_paid.Context' (aka 'Reply') does not conform to protocol 'RestorableContext'",
                ],
            ])
    }

    @Test("H10 every kind of handler compiles without a warning")
    func noWarnings() throws {
        let found = try errors(
            in: """
                public enum Till {
                    public struct Coin: Codable, Sendable { public static let penny = Coin() }
                    @Handler("a") public static func a(_ call: borrowing Call<Reply>, x: Int, y: [Coin?] = []) throws {}
                    @Handler("b") package static func b(_ call: borrowing Call<Reply>, x: Coin? = .penny) {}
                    @Handler("c") internal static func c(_: borrowing Call<Reply.Inner>, x y: Int = 1 + 1) throws(Never) {}
                    @Handler("d", version: 2, upcast: { r, v in if v == 1 { r.rename("a", to: "b") } })
                    fileprivate static func d(_ call: borrowing Handlers.Call<Reply>) throws(HandlerError) {}
                    @Handler("e", version: 2, upcast: Self.old) private static func e(_ call: borrowing Call<Reply>, x: Secret) {}
                    static func old(_ record: inout Record, _ version: Int) {}
                    private struct Secret: Codable {}
                    @available(*, deprecated, message: "use a") @Handler("f")
                    static func f(_ call: borrowing Call<Reply>, x: Int) {}
                    @available(macOS 99, *) @Handler("g") static func g(_ call: borrowing Call<Reply>, x: Int) {}
                }
                public extension Till { @Handler("h") static func h(_ call: borrowing Call<Reply>, x: Int) {} }
                package extension Till { @Handler("i") static func i(_ call: borrowing Call<Reply>, x: Int) {} }
                private extension Till { @Handler("j") static func j(_ call: borrowing Call<Reply>, x: Int) {} }
                public struct Shop: Sendable, RestorableContext {
                    public var optional: Stand? { nil }
                    public let stand = Stand()
                    public let actor = Desk()
                }
                public final class Stand: Sendable {
                    @Handler("k", on: "stand") public func k(_ call: borrowing Call<Shop>, x: consuming Int) {}
                    @Handler("l", on: "optional") public func l(_ call: borrowing Call<Shop>) throws {}
                    @Handler("m") public class func m(_ call: borrowing Call<Shop>) throws {}
                }
                public actor Desk {
                    @Handler("n", on: "actor") nonisolated func n(_ call: borrowing Call<Shop>) throws {}
                    @Handler("o") static func o(_ call: borrowing Call<Shop>) throws {}
                    @Handler("r", on: "actor", retry: .never)
                    public func r(_ call: AsyncCall<Shop>, x: [Int]) async throws { _ = count + 1 }
                    @Handler("s", on: "actor", retry: .init(attempts: 3), availability: .mainOnly)
                    private func s(_ call: AsyncCall<Shop>) async {}
                    private var count = 0
                }
                @MainActor final class View {
                    @Handler("p") nonisolated static func p(_ call: borrowing Call<Shop>, x: Int) throws {}
                    @Handler("t") static func t(_ call: AsyncCall<Slot>, x: Int?) async throws {}
                    @Handler("u", retry: Self.patient) static func u(_ call: AsyncCall<Slot>) async throws(Never) {}
                    nonisolated static let patient = RetryPolicy(attempts: 9)
                }
                func local() throws {
                    enum Inner { @Handler("q") static func q(_ call: borrowing Call<Shop>, x: Int) {} }
                    _ = try Inner.q(x: 1)
                }
                """)
        #expect(found == [])
    }
}
