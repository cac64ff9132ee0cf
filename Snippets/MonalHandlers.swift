// What Monal's handler macros say, said here. docs/internals/monal.md sets the two side by side.
import HandlerMacrosSupport

/// What the one who calls supplies, typed once, in place of `$ID(account)` at every call.
struct Answer: Sendable {
    var account = Account()
    var success = true
}

struct Account: Sendable {
    var omemo = Omemo()
}

struct Omemo: Sendable {
    // snippet.defining
    @Handler("monal.bundle-fetched", on: "account.omemo")
    func bundleFetched(_ call: borrowing Call<Answer>, rid: Int, jid: String, then: Durable<Answer>? = nil)
        throws
    {
        print("bundle of \(jid)/\(rid): \(call.success)")
        if let then { try call.step.run(then, with: call.context, overriding: ["rid": 2]) }
    }
    // snippet.end
}

enum Bundles {
    @Handler("monal.bundle-used")
    static func used(_ call: borrowing Call<Answer>, rid: Int, note: String? = nil) {
        print("used bundle \(rid), \(note ?? "no note")")
    }

    @Handler("monal.bundle-abandoned")
    static func abandoned(_ call: borrowing Call<Invalidation>, rid: Int, done: Bool = false) {
        print("no bundle \(rid): \(call.reason), \(done)")
    }

    @Handler("monal.bundle-refused")
    static func refused(_ call: borrowing Call<Answer>, then: Durable<Answer>) throws {
        try call.step.invalidate(then, reason: .cancelled, overriding: ["done": true])
    }
}

let store = try HandlerStore(path: "monal.db", registry: .discovered())
try store.step { step in
    // Bind values, call, and let the call's own values win by name.
    // snippet.binding
    let used = try Bundles.used(rid: 1)
    let fetched = try Omemo.bundleFetched(rid: 1, jid: "juliet@example.net", then: used)
    let handler = try step.bind(fetched)
    // snippet.calling
    try step.end(handler, .result, with: Answer(), overriding: ["jid": "romeo@example.net"])
    // snippet.end

    // The invalidation handler.
    // snippet.invalidating
    let doomed = try step.bind(used.orElse(Bundles.abandoned(rid: 1)))
    try step.invalidate(doomed, reason: .cancelled, overriding: ["done": true])
    // snippet.end

    // The same for a handler that another one holds.
    let holder = try step.bind(Bundles.refused(then: used.orElse(Bundles.abandoned(rid: 3))))
    try step.end(holder, .error, with: Answer(success: false))

    // A handler that was handed over goes on with what is known by now.
    let later = try step.bind(used.overriding(["note": "handed on"]))
    try step.end(later, .result, with: Answer())
}
