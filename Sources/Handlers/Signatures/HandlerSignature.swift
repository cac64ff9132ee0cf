/// The part of a handler that stored rows depend on: name, version and arguments, as text.
///
/// A program whose signatures change without a version cannot read the rows that an older one stored. A committed lock
/// file of them makes that a failing test; see ``HandlerRegistry/checkSignatures(against:of:updating:)``.
///
/// ```swift
/// print(try HandlerSignature(Thank.self))
/// // handler shop.thank
/// //   version 1
/// //   runs inside the step
/// //   called with Shop.Payment
/// //   argument customer: String
/// ```
package struct HandlerSignature: Hashable, Sendable, CustomStringConvertible {
    /// ``DurableHandler/id``.
    package let id: Name
    /// ``DurableHandler/version``.
    package let version: Int
    /// ``DurableHandler/aliases``, sorted.
    package let aliases: [Name]
    /// Whether it is an ``AsyncHandler``.
    package let isAsync: Bool
    /// The type of what it is called with.
    package let context: String
    /// The arguments, sorted by name.
    package let arguments: [HandlerArgument]

    /// Reads the signature of a handler.
    ///
    /// - Parameter handler: The handler's type.
    /// - Throws: ``HandlerError`` with code `unknownSignature` when its arguments cannot be seen; it says what to
    ///   write.
    package init<H: DurableHandler>(_ handler: H.Type) throws(HandlerError) {
        id = Name(H.id)
        version = H.version
        aliases = H.aliases.map { Name($0) }.sorted()
        isAsync = handler is any AsyncHandler.Type
        context = TypeName.text(H.Context.self)
        arguments = try H.storedArguments.sorted { Name($0.name) < Name($1.name) }
    }

    /// The block of a lock file, without a newline at its end.
    package var description: String { (["handler \(id)"] + lines.map { "  " + $0 }).joined(separator: "\n") }

    /// The lines below the name.
    private var lines: [String] {
        let arguments = arguments.map { argument in
            "argument \(argument.name): \(argument.type)" + (argument.hasDefault ? " (has a default)" : "")
        }
        return ["version \(version)"] + aliases.map { "alias \($0)" }
            + [isAsync ? "runs under a lease" : "runs inside the step", "called with \(context)"] + arguments
    }
}

/// A stored argument of a handler, as ``DurableHandler/storedArguments`` lists them.
///
/// ```swift
/// static let storedArguments = [HandlerArgument("customer", String.self)]
/// ```
public struct HandlerArgument: Hashable, Sendable {
    /// The name under which it is stored.
    package let name: String
    /// Its type, with its module unless that is `Swift`: `[String: XMPPCore.JID?]`.
    package let type: String
    /// Whether a default value counts where it is missing from a row.
    package let hasDefault: Bool

    /// Describes one argument.
    ///
    /// - Parameters:
    ///   - name: The name under which it is stored.
    ///   - type: Its type.
    ///   - hasDefault: Whether a default value counts where it is missing from a row.
    public init(_ name: String, _ type: Any.Type, hasDefault: Bool = false) {
        self.name = name
        self.type = TypeName.text(type)
        self.hasDefault = hasDefault
    }
}

extension ErrorCode<HandlerError> {
    /// A handler's arguments cannot be seen.
    package static var unknownSignature: Self { Self(rawValue: "unknown-signature") }
    /// The signatures of a program's handlers are not those of its lock file.
    package static var signaturesChanged: Self { Self(rawValue: "signatures-changed") }
    /// A lock file cannot be read or written.
    package static var lockFileUnavailable: Self { Self(rawValue: "lock-file-unavailable") }
}
