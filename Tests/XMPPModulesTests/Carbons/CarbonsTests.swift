import AccountTestSupport
import TestSupport
import TestThreads
import Testing
import XMPPCore
import XMPPModules

/// Copies of what other clients send and receive; how they are read is in ``ChatTests``.
@Suite(.ownThread, .timeLimit(.minutes(2))) struct CarbonsTests {
    @Test("X24 copies that are not wanted any more are switched off at the server")
    func carbons() async throws {
        try await withModulesRig { rig in
            let account = try await rig.connected { $0.modules = [] }
            try await account.add(CarbonsModule())
            try await account.caughtUp()
            try await account.remove(CarbonsModule.self)
            try await account.caughtUp()
            let sent = rig.server.log.entries.filter { $0.event == .received && $0.name == "iq" }
                .compactMap(\.xml).filter { $0.contains(Namespaces.carbons) }
            #expect(sent.count == 2)
            #expect(sent.first?.contains("<enable") == true && sent.last?.contains("<disable") == true)
            try await eventually { try account.store.waitingHandlers == 0 }
        }
    }
}
