import Handlers
public import XMPPCore

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

extension ErrorCode<AccountError> {
    /// A filter of a module stopped what was to be sent. The message says which and why.
    public static var stoppedByFilter: Self { Self(rawValue: "stopped-by-filter") }
}

extension Account {
    /// Returns a received stanza as the filters leave it.
    ///
    /// - Returns: The stanza that goes on; else why it does not.
    func filtered(incoming stanza: Stanza, in step: borrowing Step) throws -> Result<Stanza, StoppedStanza> {
        var stanza = stanza
        for module in modules.filters {
            guard let filter = module.hooks.filterIncoming else { continue }
            var next: Result<Stanza, StoppedStanza> = .success(stanza)
            try guarding(module, in: step) {
                next = try module.outcome(filter(stanza, self, step), of: stanza)
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
        for module in filters.reversed() {
            guard let filter = module.hooks.filterOutgoing else { continue }
            var next: Result<Stanza, StoppedStanza> = .success(stanza)
            try step.undoingOnError {
                next = try module.outcome(filter(stanza, self, step), of: stanza)
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
        } catch  where !step.isUsable {
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

extension RegisteredModule {
    fileprivate func outcome(_ filtered: FilteredStanza, of stanza: Stanza) throws
        -> Result<Stanza, StoppedStanza>
    {
        switch filtered {
        case .passed: return .success(stanza)
        case .stopped(let reason):
            return .failure(StoppedStanza(reason: "the filter '\(name)' stopped it: \(reason)"))
        case .changed(let element):
            let old = stanza.element
            guard element.name == old.name, element.namespace == old.namespace,
                ["id", "type", "from", "to"].allSatisfy({ element[$0] == old[$0] }),
                let changed = try Stanza(element)
            else {
                throw AccountError(
                    .invalidStanza,
                    "the filter '\(name)' changed whose <\(old.name)/> it is; leave name, namespace, id, type, from and to as they are"
                )
            }
            return .success(changed)
        }
    }
}
