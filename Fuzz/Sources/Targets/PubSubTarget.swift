@testable import Handlers
@testable import PubSub
@testable import XMPPAccount
import XMPPCore

extension FuzzTarget {
    /// Events and answers of a PubSub service: what is stored of an event reads as the same event.
    static let pubsub = FuzzTarget("pubsub", dictionary: "xml") { bytes in
        for element in try Element.all(in: bytes, of: Namespaces.pubsubEvent) {
            for change in PubSubEvent.Change.read(element) { try roundTrip(change) }
            for item in element.elements { read(item) }
            _ = try? PubSubReading.items(element, node: "n")
            _ = ResultPage(in: element).map { "\($0)" }
            _ = PubSubReading.index(element)
            guard let iq = try? IQ(element: element) else { continue }
            _ = PubSubReading.fetch(IQReply.Outcome(iq), in: iq, node: "n")
            _ = PubSubReading.publish(IQReply.Outcome(iq), in: iq, itemID: nil)
            if let error = iq.error { _ = "\(PubSubError(error, in: iq))" }
        }
    }

    private static func roundTrip(_ change: PubSubEvent.Change) throws {
        let written = change.element(node: "n")
        let stored = try? Element(stored: written.serialized())
        try require(stored?.canonical == written.canonical, "an event is stored as another element")
        let again = PubSubEvent.Change.read(written)
        try require(
            again.first?.element(node: "n").canonical == written.canonical && again.count == 1,
            "\(written) reads as \(again.count) changes, or another one")
    }

    private static func read(_ item: Element) {
        for payload in item.elements {
            _ = try? UserNick(payload, itemID: nil)
            _ = try? AvatarMetadata(payload, itemID: nil)
        }
    }
}
