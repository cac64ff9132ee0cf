/// Why a program parks a handler that it cannot call: the stored reason, from which another program sees whether it can.
///
/// It may concern another handler than the parked one: one that this called, or its invalidation handler.
enum ParkedReason {
    static func unknown(_ name: String) -> String {
        "no handler named '\(name)' is registered in this program; its row is kept until a program that has it starts"
    }

    static func newer(_ name: String, _ version: Int, than known: Int) -> String {
        "the handler '\(name)' was bound in version \(version), but this program has version \(known); its row is kept until a newer program starts"
    }

    /// Whether a program with `registry` lacks nothing that the program lacked which gave the reason.
    static func isGone(_ reason: String, in registry: HandlerRegistry) -> Bool {
        if let match = reason.prefixMatch(of: /no handler named '(.*?)' is registered/) {
            return registry.knows(String(match.1))
        }
        if let match = reason.prefixMatch(of: /the handler '(.*?)' was bound in version (\d+),/) {
            let known = registry.definition(named: String(match.1))?.version ?? -1
            return Int(match.2).map { $0 <= known } ?? false
        }
        // Another reason, such as a journal that does not fit: this program would park it again.
        return false
    }
}
