import XMPPCore

// How much memory the events take that wait for a listener: peers choose what is in them.

extension AccountEvent {
    /// About how many bytes of memory it takes.
    var weight: Int {
        let texts =
            switch self {
            case .ignored(let element, let reason): element.weight + reason.utf8.count
            case .streamManagementAnswered(let element): element.weight
            case .unfinished(let handler, let call, let reason):
                handler.utf8.count + call.utf8.count + reason.utf8.count
            case .refused(_, let reason): reason.utf8.count
            case .acknowledged(let stanzas): stanzas.count * 256
            case .notEnabled(let error), .sessionLost(let error): error?.weight ?? 0
            case .suspended(let error), .stopped(let error): error.message.utf8.count
            case .retrying(_, let error), .moduleFailed(_, let error): "\(error)".utf8.count
            case .module(let event): (event as? any ForeignEvent)?.foreignBytes ?? 0
            case .bound, .enabled, .resumed, .acknowledgementRequested, .handedOver, .dropped: 0
            }
        return 128 + texts
    }
}

/// An event of a module in which others choose texts.
package protocol ForeignEvent: ModuleEvent {
    /// The number of bytes of these texts.
    var foreignBytes: Int { get }
}

extension Element {
    /// About how many bytes of memory it takes with all that is in it.
    package var weight: Int {
        var sum = 256 + name.utf8.count + namespace.utf8.count
        for attribute in attributes { sum += 128 + attribute.name.utf8.count + attribute.value.utf8.count }
        for child in children {
            switch child {
            case .element(let element): sum += element.weight
            case .text(let text): sum += 64 + text.utf8.count
            }
        }
        return sum
    }
}

extension StanzaError {
    package var weight: Int { text.bytes + language.bytes }
}

extension ForeignText? {
    package var bytes: Int { self?.utf8.count ?? 0 }
}
