import Handlers
import TestThreads
import Testing

/// Has the same name as ``Greet``.
private struct Impostor: Handler {
    static let id = "test.greet"
    func run(_ call: borrowing Call<Reply>) throws {}
}

/// Was once called ``Greet``'s name.
private struct Renamed: Handler {
    static let id = "test.renamed"
    static let aliases = ["test.older", "test.greet"]
    func run(_ call: borrowing Call<Reply>) throws {}
}

@Suite(.serialized, .ownThread) struct RegistryTests {
    @Test("H1 a registry lists the names and aliases of its handlers, sorted")
    func names() {
        let registry = HandlerRegistry([Renamed.self, Count.self])
        #expect(registry.names == ["test.count", "test.greet", "test.older", "test.renamed"])
    }

    @Test("H1 registering the same handler again changes nothing")
    func again() {
        let registry = HandlerRegistry([Greet.self, Greet.self])
        registry.register(Greet.self)
        #expect(registry.names == ["test.greet"])
    }

    @Test("H1 a duplicate name traps at start and names the handler and both places")
    func duplicate() async throws {
        let result = try await #require(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) {
            let registry = HandlerRegistry([Greet.self], file: "App/First.swift", line: 11)
            registry.register(Impostor.self, file: "App/Second.swift", line: 22)
        }
        let text = String(decoding: result.standardErrorContent, as: UTF8.self)
        #expect(text.contains("'test.greet'"))
        #expect(text.contains("App/First.swift:11"))
        #expect(text.contains("App/Second.swift:22"))
    }

    @Test("H1 two handlers of one name in a list are named by their types")
    func duplicateInList() async throws {
        let result = try await #require(
            processExitsWith: .failure, observing: [\.standardErrorContent]
        ) { _ = HandlerRegistry([Greet.self, Impostor.self]) }
        let text = String(decoding: result.standardErrorContent, as: UTF8.self)
        for type in ["HandlersTests.Greet", "Impostor"] { #expect(text.contains(type), "\(text)") }
    }

    @Test("H1 an alias that is the name of another handler traps at start")
    func duplicateAlias() async {
        await #expect(processExitsWith: .failure) { _ = HandlerRegistry([Greet.self, Renamed.self]) }
    }

    @Test("H1 a discovered registry holds the listed handlers too")
    func discovered() {
        #expect(HandlerRegistry.discovered(and: [Count.self]).names.contains("test.count"))
    }
}

@Suite(.serialized, .ownThread) struct InstanceTests {
    private final class Service {}

    @Test("H2 an instance that is there is the one that is called")
    func present() throws {
        let service = Service()
        let optional: Service? = service
        #expect(try __resolveInstance(service, handler: "test.greet", path: "account.omemo") === service)
        #expect(try __resolveInstance(optional, handler: "test.greet", path: "account.omemo") === service)
    }

    @Test("H2 an instance that is missing is an error that names the handler and the path, never silence")
    func missing() throws {
        let service: Service? = nil
        let error = #expect(throws: HandlerError.self) {
            try __resolveInstance(service, handler: "test.greet", path: "account.omemo")
        }
        #expect(error?.code == .missingInstance)
        #expect(error?.message.contains("'test.greet'") == true)
        #expect(error?.message.contains("'account.omemo'") == true)
    }
}
