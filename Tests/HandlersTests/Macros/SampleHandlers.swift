import FoundationEssentials
import HandlerMacrosSupport
import Synchronization

// Handlers as a messenger writes them: each kind of owner, of argument and of call once.

/// The live program. It keeps what its handlers said.
final class Messenger: HandlerEnvironment {
    let scope = HandlerScope("sample")
    let roster = Roster()
    let archive = Archive()
    let uploads = Uploads()
    let presence = Presence()
    private let said = Mutex<[String]>([])

    func say(_ text: String) { said.withLock { $0.append(text) } }
    func taken() -> [String] { said.withLock { $0 } }
}

/// What an answer supplies. It can be kept: the text is stored, and the messenger is that of the process.
struct Answer: RestorableContext {
    let messenger: Messenger
    var text = "yes"

    var environment: (any HandlerEnvironment)? { messenger }
    static let storage = ContextStorage<Answer>(
        encode: { Array($0.text.utf8) }, decode: Answer.init(restoring:in:))

    init(_ messenger: Messenger) { self.messenger = messenger }

    init(restoring bytes: [UInt8], in environment: (any HandlerEnvironment)?) throws {
        guard let messenger = environment as? Messenger else { throw Failure(description: "no messenger") }
        self.messenger = messenger
        text = String(decoding: bytes, as: UTF8.self)
    }
}

/// A stanza as a program stores it.
struct StoredStanza: Codable, Hashable, Sendable {
    struct Attribute: Codable, Hashable, Sendable {
        var name: String
        var value: String
    }

    var name: String
    var attributes: [Attribute] = []
    var children: [StoredStanza] = []
}

enum Payment: Codable, Hashable, Sendable {
    case none
    case card(number: String, expires: Date)
    case coins([Int: UInt64])
}

// MARK: - The handlers

/// 1, 2: static functions, without and with arguments of every shape.
enum Storefront {
    static let lineOfOpened = #line + 2

    @Handler("sample.opened")
    static func opened(_ call: borrowing Call<Answer>) { call.messenger.say("opened \(call.text)") }

    @Handler("sample.ordered")
    static func ordered(
        _ call: borrowing Call<Answer>, payment: Payment, lines: [StoredStanza], notes: [String: [String?]],
        priority: Int = 3, coupon: String? = nil
    ) throws {
        call.messenger.say("ordered \(payment) \(lines.map(\.name)) \(notes) \(priority) \(coupon ?? "-")")
    }
}

/// 3: on an instance of a class.
final class Roster: Sendable {
    let size = 2

    @Handler(
        "sample.roster-fetched", version: 2, aliases: ["sample.roster"], on: "messenger.roster",
        upcast: Roster.old)
    func fetched(_ call: borrowing Call<Answer>, version: String?) throws {
        call.messenger.say("roster \(version ?? "-") of \(size)")
    }

    static func old(_ arguments: inout Record, _ version: Int) throws {
        arguments.rename("ver", to: "version")
    }
}

/// 4: on an instance of a struct, with a handler as its argument, which runs next.
struct Archive: Sendable {
    let limit = 50

    @Handler("sample.page-fetched", on: "messenger.archive")
    func pageFetched(_ call: borrowing Call<Answer>, after: UInt64, then: Durable<Answer>? = nil) throws {
        call.messenger.say("page of \(limit) after \(after)")
        if let then { try call.step.run(then, with: call.context) }
    }
}

/// 5, 6: on an actor, waiting for it; and inside the step, beside it.
actor Uploads {
    private var count = 0

    @Handler(
        "sample.slot-given", on: "messenger.uploads", retry: .init(attempts: 2, firstDelay: .zero),
        availability: .mainOnly)
    func slotGiven(_ call: AsyncCall<Answer>, file: URL, token: Secret<String>) async throws {
        count += 1
        call.messenger.say("upload \(count) of \(file.absoluteString), attempt \(call.attempt)")
        if call.attempt == 1 { throw Failure(description: "the server is busy") }
        try call.end { step in
            try step.execute("INSERT INTO note(text) VALUES (?)", "uploaded with \(token.value)")
        }
    }

    @Handler("sample.slot-refused", on: "messenger.uploads", retry: .never)
    nonisolated func slotRefused(_ call: borrowing Call<Answer>, reason: String) throws {
        throw Failure(description: reason)
    }
}

/// 7: on the main actor.
@MainActor enum Screen {
    private static var shown: [String] = []

    @Handler("sample.shown")
    static func show(_ call: AsyncCall<Answer>, lines: [String]) async {
        shown += lines
        call.messenger.say("screen \(shown)")
    }
}

/// 8: the invalidation handler of another one.
extension Storefront {
    @Handler("sample.abandoned")
    static func abandoned(_ call: borrowing Call<Invalidation>, order: Int) throws {
        let messenger = call.environment as? Messenger
        messenger?.say("abandoned \(order): \(call.reason)")
    }
}

/// 9: a timer.
struct Presence: Sendable {
    @Handler("sample.idle", availability: .everywhere)
    static func idle(_ call: borrowing Call<TimerFired>, show: String = "away") throws {
        (call.environment as? Messenger)?.say("idle \(show)")
    }

    /// 10: on an instance of a struct, waiting.
    @Handler("sample.published", on: "messenger.presence")
    func published(_ call: AsyncCall<Answer>, stanza: StoredStanza) async throws(Failure) {
        call.messenger.say("published \(stanza.name) \(stanza.children.count)")
    }
}
