/// What a program lacks to call a handler, which it parks therefore: a program that has it calls the handler.
///
/// It may concern another handler than the parked one: one that this called, or its invalidation handler.
enum Lack: Error {
    /// A handler of that name.
    case handler(Name)
    /// A handler of that name in that version.
    case version(Name, Int)
    /// A time zone.
    case zone(String)

    /// The codes in the column `lacks`. It is NULL where a program parked the handler that had no such column.
    enum Code: Int64, StoredState {
        /// Something else, such as a journal that does not fit: each program would park it again.
        case other = 0
        case handler = 1
        case version = 2
        case zone = 3
    }

    private var columns: (code: Code, name: String, version: Int?) {
        switch self {
        case .handler(let name): (.handler, name.string, nil)
        case .version(let name, let version): (.version, name.string, version)
        case .zone(let name): (.zone, name, nil)
        }
    }

    /// The values of the columns `lacks`, `lacks_name` and `lacks_version`.
    static func values(of lack: Lack?) -> [any SQLConvertible] {
        let none: [any SQLConvertible] = [Code.other.rawValue, String?.none, Int?.none]
        guard let columns = lack?.columns else { return none }
        // A name that a handler was given in its arguments can be anything.
        guard ForeignText(columns.name).isName(ofBytes: NameBounds.name) else { return none }
        return [columns.code.rawValue, columns.name, columns.version]
    }

    /// What a row says of it.
    struct Stored {
        var code: Int64?
        var name: ForeignText?
        var version: Int64?

        /// Whether a program with `registry` lacks nothing that the program lacked which parked the handler.
        ///
        /// Without a code it may as well try: if it cannot call the handler either, it parks it with one.
        func isGone(in registry: HandlerRegistry) -> Bool {
            guard let code else { return true }
            guard let name else { return false }
            return switch Code(rawValue: code) {
            case .handler: registry.knows(name)
            case .version: Int64(registry.definition(named: name)?.version ?? -1) >= version ?? .max
            case .zone: TimeZoneRules.isKnown(name.string)
            case .other, nil: false
            }
        }
    }

    /// - Parameter known: The version that the program has.
    func error(known: Int? = nil) -> HandlerError {
        switch self {
        case .handler(let name):
            HandlerError(
                .unknownHandler,
                "no handler named '\(name)' is registered in this program; its row is kept until a program that has it starts",
                cause: self)
        case .version(let name, let version):
            HandlerError(
                .newerVersion,
                "the handler '\(name)' was bound in version \(version), but this program has version \(known ?? 0); its row is kept until a newer program starts",
                cause: self)
        case .zone(let name):
            HandlerError(
                .invalidCalendar,
                "this machine does not know the time zone '\(name)' of the timer; its row is kept until a program runs where the zone is known, which the package tzdata brings",
                cause: self)
        }
    }
}
