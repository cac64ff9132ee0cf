public import Handlers
public import XMPPCore

/// A module that changes or stops stanzas on their way.
///
/// Received stanzas are filtered in the order of the modules, after the count and before any other module or listener; what
/// goes out in the other order, before it is stored to be sent. So the first filter is the nearest to the server. A message is
/// filtered as its author wrote it, taken out of copies and archives, and only when it is seen for the first time.
///
/// ```swift
/// struct NoLinks: StanzaFilter {
///     static let name = "no-links"
///     func filter(incoming stanza: Stanza, of account: Account, in step: borrowing Step) throws -> FilteredStanza {
///         guard case .message(let message) = stanza, message.body?.hasPrefix("https:") == true else { return .passed }
///         return .stopped("a link of a stranger")
///     }
/// }
/// configuration.modules = .standard + [NoLinks()]
/// ```
public protocol StanzaFilter: AccountModule {
    /// Looks at a stanza that came in.
    ///
    /// - Parameters:
    ///   - stanza: What came, as the filters before this one left it.
    ///   - account: The account that received it.
    ///   - step: The step that counts it.
    /// - Returns: What becomes of it. One that is stopped is counted and told as ``AccountEvent/ignored(_:reason:)``; a request
    ///   is then answered with `service-unavailable`, and an answer ends its request as an error.
    /// - Throws: Any error; what the filter did is undone, ``AccountEvent/moduleFailed(_:_:)`` tells it, and the stanza passes
    ///   as it was: nothing is lost by a defect. A filter that must let nothing pass catches errors and stops.
    func filter(incoming stanza: Stanza, of account: Account, in step: borrowing Step) throws
        -> FilteredStanza

    /// Looks at a stanza that is to be sent: by the program, a module or the account itself.
    ///
    /// - Parameters:
    ///   - stanza: What is to be sent, as the filters before this one left it.
    ///   - account: The account that sends it.
    ///   - step: The step in which it is sent.
    /// - Returns: The decision. The sender of a stopped stanza gets an ``AccountError`` `stoppedByFilter`; an answer
    ///   to a request of another entity becomes `service-unavailable`, as every request is answered (RFC 6120 section 8.2.3).
    /// - Throws: Any error; what the filter did is undone, and the stanza is not sent: its sender gets the error.
    func filter(outgoing stanza: Stanza, of account: Account, in step: borrowing Step) throws
        -> FilteredStanza
}

/// The decision of a filter about a stanza.
///
/// ```swift
/// var element = message.element
/// element.append(Element("store", namespace: "urn:xmpp:hints"))
/// let filtered = FilteredStanza.changed(element)
/// ```
public enum FilteredStanza: Sendable {
    /// The stanza passes unchanged.
    case passed
    /// This element replaces the stanza. Name, namespace, `id`, `type`, `from` and `to` must be those of the stanza.
    case changed(Element)
    /// The stanza is stopped, for this reason.
    case stopped(String)
}

extension StanzaFilter {
    public func filter(incoming stanza: Stanza, of account: Account, in step: borrowing Step) throws
        -> FilteredStanza
    { .passed }
    public func filter(outgoing stanza: Stanza, of account: Account, in step: borrowing Step) throws
        -> FilteredStanza
    { .passed }
}

extension AccountError.Code {
    /// A ``StanzaFilter`` stopped what was to be sent; the message says which and why.
    public static var stoppedByFilter: Self { Self(rawValue: "stopped-by-filter") }
}

extension Account {
    /// Returns a received stanza as the filters leave it.
    ///
    /// - Returns: The stanza that goes on; else why it does not.
    func filtered(incoming stanza: Stanza, in step: borrowing Step) throws -> Result<Stanza, StoppedStanza> {
        var stanza = stanza
        for filter in modules.filters {
            var next: Result<Stanza, StoppedStanza> = .success(stanza)
            try guarding(filter, in: step) {
                next = try filter.outcome(
                    filter.filter(incoming: stanza, of: self, in: step), of: stanza)
            }
            switch next {
            case .success(let passed): stanza = passed
            case .failure: return next
            }
        }
        return .success(stanza)
    }

    /// Returns a stanza to send as the filters leave it.
    ///
    /// - Throws: What a filter throws; ``AccountError`` `stoppedByFilter`.
    func filtered(outgoing element: Element, in step: borrowing Step) throws -> Element {
        let filters = modules.filters
        guard !filters.isEmpty, var stanza = try Stanza(element) else { return element }
        for filter in filters.reversed() {
            var next: Result<Stanza, StoppedStanza> = .success(stanza)
            try step.undoingOnError {
                next = try filter.outcome(
                    filter.filter(outgoing: stanza, of: self, in: step), of: stanza)
            }
            switch next {
            case .success(let passed): stanza = passed
            case .failure(let stopped): throw AccountError(.stoppedByFilter, stopped.reason)
            }
        }
        return stanza.element
    }

    /// Returns a stanza without a caller as the filters leave it; nil if one stops it or fails, which is reported.
    func filtered(unasked element: Element, in step: borrowing Step) throws -> Element? {
        do {
            return try filtered(outgoing: element, in: step)
        } catch let error as HandlerError where error.isStorageFailure {
            throw error
        } catch {
            ignore(element, "not sent: \(error)", after: step)
            return nil
        }
    }
}

/// The reason why a stanza was stopped.
struct StoppedStanza: Error {
    let reason: String
}

extension StanzaFilter {
    fileprivate func outcome(_ filtered: FilteredStanza, of stanza: Stanza) throws
        -> Result<Stanza, StoppedStanza>
    {
        switch filtered {
        case .passed: return .success(stanza)
        case .stopped(let reason):
            return .failure(StoppedStanza(reason: "the filter '\(Self.name)' stopped it: \(reason)"))
        case .changed(let element):
            let old = stanza.element
            guard element.name == old.name, element.namespace == old.namespace,
                ["id", "type", "from", "to"].allSatisfy({ element[$0] == old[$0] }),
                let changed = try Stanza(element)
            else {
                throw AccountError(
                    .invalidStanza,
                    "the filter '\(Self.name)' changed whose <\(old.name)/> it is; leave name, namespace, id, type, from and to as they are"
                )
            }
            return .success(changed)
        }
    }
}
