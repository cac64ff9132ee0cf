import Foundation
import Handlers
import Omemo
import PubSub
import PushwakeCommands
import Simulation
import TestThreads
import Testing
import Upload
import XMPPAccount
import XMPPModules

/// Every handler of this package that users' databases hold, and the lock file of their signatures.
@Suite(.ownThread) struct HandlersLockTests {
    /// Listed, not discovered: this program holds the handlers of all other tests too.
    private static let handlers: [any DurableHandler.Type] =
        (Account.schemas + UploadModule.schemas).flatMap(\.handlers) + OmemoService.handlers
        + PubSubService.handlers
        + SimulationApp.handlers + StormApp.schema.handlers + ClientApp.schema.handlers + [
            SimulationApp.Handler_received.self, SimulationApp.Handler_answered.self,
            SimulationApp.Handler_abandoned.self, SimulationApp.Handler_acknowledged.self,
            SimulationApp.Handler_news.self,
        ] + HandlerRegistry.ownHandlers

    private static let package = URL(filePath: #filePath).deletingLastPathComponent()
        .deletingLastPathComponent()
        .deletingLastPathComponent()

    private var lockFile: String { Self.package.appending(path: "handlers.lock").path }

    @Test("H11 the stored handlers of this package are those of handlers.lock")
    func unchanged() throws {
        let registry = HandlerRegistry(Self.handlers)
        if ProcessInfo.processInfo.environment["HANDLERS_LOCK"] == "write" {
            try registry.writeSignatures(to: lockFile)
        }
        try registry.checkSignatures(
            against: lockFile, updating: "run 'make schema' and commit handlers.lock")
    }

    @Test("H11 no handler of this package is left out of handlers.lock")
    func complete() throws {
        // An event is stored under a name of that form, too.
        // The rows of a simulated world end with its program.
        let declared = try idsInSources().subtracting([HandlerFailure.id])
            .filter { !$0.hasPrefix("world.") }
        let listed = Set(try HandlerRegistry(Self.handlers).signatures.map(\.id.string))
        #expect(declared == listed)
    }

    /// The ids that the sources declare, in either form; all have the form `module.event`.
    private func idsInSources() throws -> Set<String> {
        let plain = /static (?:let|var) id(?:: String)? (?:= |\{ )"([^"\\]+\.[^"\\]+)"/
        let macro = /@Handler\(\s*"([^"\\]+\.[^"\\]+)"/
        let sources = Self.package.appending(path: "Sources")
        let files = FileManager.default.enumerator(at: sources, includingPropertiesForKeys: nil)
        var ids: Set<String> = []
        while let file = files?.nextObject() as? URL {
            guard file.pathExtension == "swift" else { continue }
            let code = try String(contentsOf: file, encoding: .utf8).split(separator: "\n")
                .filter { !$0.drop { $0 == " " }.hasPrefix("//") }.joined(separator: "\n")
            for match in code.matches(of: plain) + code.matches(of: macro) {
                ids.insert(String(match.output.1))
            }
        }
        return ids
    }
}
