import Handlers
import HandlersTestKit
import Synchronization

/// Stands for the programs elsewhere in a rehearsal.
final class Rehearsal: Sendable {
    static let shared = Rehearsal()

    private struct State {
        /// Suppliers that never answer.
        var silent: Set<String> = []
        var keys: Set<String> = []
        /// Orders for which a charge was requested.
        var charged: Set<String> = []
    }

    private let state = Mutex(State())

    func silence(_ suppliers: Set<String>) { state.withLock { $0.silent = suppliers } }

    func isCharged(_ order: String) -> Bool { state.withLock { $0.charged.contains(order) } }

    /// Answers the second request with a key.
    func request(_ request: String, key: String) throws {
        let words = request.split(separator: " ").map(String.init)
        try state.withLock { state in
            let isNew = state.keys.insert(key).inserted
            if words[0] == "charge" { state.charged.insert(words[1]) }
            guard !isNew, !state.silent.contains(words.last ?? "") else {
                throw NoAnswer(request: request)
            }
        }
    }
}

extension OrderProgram {
    /// Prints what becomes of three orders, for three, two and one supplier that answer, while days pass at once.
    func rehearse() async throws {
        try await withTestStore(schemas: [tables]) { test in
            var seen = 0
            func show(_ moment: String) throws {
                let log = try test.store.read {
                    try $0.all("SELECT text FROM log ORDER BY rowid") { $0.text(0) }
                }
                let charged = ["1", "2", "3"].filter(Rehearsal.shared.isCharged).joined(separator: " and ")
                print(([moment, "charged \(charged)"] + log.dropFirst(seen)).joined(separator: "; "))
                seen = log.count
            }
            try test.store.step(report)
            for (order, silent) in [("1", []), ("2", ["Eve"]), ("3", ["Bob", "Eve"])]
                as [(String, Set<String>)]
            {
                Rehearsal.shared.silence(silent)
                try test.store.step { step in try start(order, 1999, step) }
                try await test.advance(by: .seconds(59))
                try show("order \(order), 59 s")
                try await test.advance(by: .seconds(2))
                try show("order \(order), 61 s")
            }
            try test.store.step { step in try pay("1", 1999, step) }
            try await test.advance(by: .seconds(1))
            try show("payment 1")
            try await test.advance(by: .seconds(3 * 24 * 3600 - 100))
            try show("three days less 100 s")
            try await test.advance(by: .seconds(100))
            try show("three days")
        }
    }
}
