/// Why a program parks a handler that it cannot call: the stored reason, from which another program sees whether it can.
///
/// It may concern another handler than the parked one: one that this called, or its invalidation handler.
enum ParkedReason {
    static func unknown(_ name: Name) -> String {
        "no handler named '\(name)' is registered in this program; its row is kept until a program that has it starts"
    }

    static func newer(_ name: Name, _ version: Int, than known: Int) -> String {
        "the handler '\(name)' was bound in version \(version), but this program has version \(known); its row is kept until a newer program starts"
    }

    static func zone(_ name: String) -> String {
        "this machine does not know the time zone '\(name)' of the timer; its row is kept until a program runs where the zone is known, which the package tzdata brings"
    }

    /// Whether a program with `registry` lacks nothing that the program lacked which gave the reason.
    static func isGone(_ reason: String, in registry: HandlerRegistry) -> Bool {
        // By scalars: a name may begin with a mark that forms one character with the quotation mark before it.
        if let match = reason.prefixMatch(
            of: /no handler named '(.*?)' is registered/.matchingSemantics(.unicodeScalar))
        {
            return registry.knows(Name(String(match.1)))
        }
        if let match = reason.prefixMatch(
            of: /the handler '(.*?)' was bound in version (\d+),/.matchingSemantics(.unicodeScalar))
        {
            let known = registry.definition(named: Name(String(match.1)))?.version ?? -1
            return Int(match.2).map { $0 <= known } ?? false
        }
        if let match = reason.prefixMatch(
            of: /this machine does not know the time zone '(.*?)' of the timer;/)
        {
            return TimeZoneRules.isKnown(String(match.1))
        }
        // Another reason, such as a journal that does not fit: this program would park it again.
        return false
    }
}
