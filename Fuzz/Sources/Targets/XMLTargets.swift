@testable import XMPPAccount
@testable import XMPPModules
@testable import XMPPTransport
import XMPPCore

extension FuzzTarget {
    /// A stream as a server sends it. The events do not depend on how it is cut, and each element reads again as it was
    /// written.
    static let parser = FuzzTarget("parser", maximumLength: 16 << 10, passes: 4, dictionary: "xml") { bytes in
        let whole = try StreamOutcome([bytes])
        let place = Int(Digest.of(bytes) % UInt64(bytes.count + 1))
        let cut = try StreamOutcome([Array(bytes[..<place]), Array(bytes[place...])])
        try require(cut.canonical == whole.canonical, "cut at \(place) the stream has other events")
        if bytes.count <= 512 {
            let single = try StreamOutcome(bytes.map { [$0] })
            try require(single.canonical == whole.canonical, "byte by byte the stream has other events")
        }
        // A parser is made for each, which in a stream of thousands would take more time than the stream.
        for element in whole.elements.prefix(16) { try roundTrip(element) }
    }

    private static func roundTrip(_ element: Element) throws {
        let text = String(decoding: Serializer(standaloneIn: "").bytes(element), as: UTF8.self)
        let again = try? Element(stored: text)
        try require(
            again?.canonical == element.canonical, "the element written as \(text) reads as another one")
    }

    /// Any elements as stanzas and as errors: all that can be asked of them.
    static let stanzas = FuzzTarget("stanzas", dictionary: "xml") { bytes in
        for element in try Element.all(in: bytes) {
            if let error = StreamError(element) { _ = "\(error)\(error.element)" }
            do {
                guard let stanza = try Stanza(element) else { continue }
                try ask(stanza)
            } catch let error as StanzaFormatError {
                _ = "\(error)"
                if let reply = error.reply(to: element) { _ = Serializer().bytes(reply) }
            }
        }
    }

    private static func ask(_ stanza: Stanza) throws {
        switch stanza {
        case .iq(let iq):
            _ = (iq.payload, iq.error.map { "\($0)\($0.element)" })
            // What is answered must be a stanza itself, or the stream ends there.
            for answer in [iq.result(), iq.errorReply(StanzaError(.badRequest), echo: true)] {
                if let answer { _ = try IQ(element: answer.element) }
            }
        case .message(let message):
            _ = (message.body, message.error, message.chatState, message.delay, message.requestsReceipt)
            _ = (message.receivedID, message.originID, message.from.flatMap { message.stanzaID(by: $0) })
            try askValues(of: message)
        case .presence(let presence): _ = (presence.priority, presence.error)
        }
    }

    /// What stands beside the text reads again as it was written, and no fallback adds to the text.
    private static func askValues(of message: Message) throws {
        let written = values(of: message)
        let again = Message(to: nil, from: message.from, type: message.type, id: "1", children: written)
        try require(values(of: again) == written, "a value beside the text reads as another one")
        let features = message.fallbacks.compactMap { $0.feature?.string }
        let rest = message.body(understanding: features)?.utf8.count ?? 0
        try require(rest <= message.body?.utf8.count ?? 0, "a fallback made the text longer")
        _ = (message.author(), message.referenceID, message.tombstone)
        _ = (message.corrects(again), message.reacts(to: again))
    }

    private static func values(of message: Message) -> [Element] {
        [
            message.correction?.element, message.retraction?.element, message.reactions?.element,
            message.reply?.element, message.displayMarker?.element,
        ].compactMap(\.self) + ProcessingHint.allCases.filter(message.hints.contains).map(\.element)
            + message.fallbacks.map(\.element) + (message.spoiler?.elements ?? [])
    }

    /// An address in text: what it is written as reads as the same address.
    static let jid = FuzzTarget("jid", dictionary: "jid") { bytes in
        guard let text = String(validating: bytes, as: UTF8.self) else { return }
        let jid = try JID(text)
        let written = jid.description
        let again = (try? JID(written)).map { Array($0.description.utf8) }
        try require(again == Array(written.utf8), "the address '\(written)' reads as another one")
        try require(written.utf8.count <= 3 * JID.maximumPartLength + 2, "the address is too long")
        for address in [jid.bare, jid.domainJID] { _ = try JID(address.description) }
        _ = DomainName.ascii(jid.domain.string)
    }

    /// A time in text: what it is written as says the same time.
    static let dates = FuzzTarget("dates", .short, maximumLength: 64) { bytes in
        guard let time = Timestamp(String(decoding: bytes, as: UTF8.self)) else { return }
        let text = time.description
        // An offset can put the time outside of the years that can be written.
        guard (-62_167_219_200_000..<253_402_300_800_000).contains(time.milliseconds) else { return }
        try require(Timestamp(text) == time, "\(time) is written as \(text)")
    }

    /// Labels as DNS writes them, both ways.
    static let punycode = FuzzTarget("punycode", .short, maximumLength: 256) { bytes in
        let text = String(decoding: bytes, as: UTF8.self)
        if let label = Punycode.decode(text[...]) {
            let again = Punycode.decode(Punycode.encode(label.unicodeScalars)[...])
            try require(
                again.map { Array($0.utf8) } == Array(label.utf8), "'\(label)' is encoded as another label")
        }
        let label = Punycode.decode(Punycode.encode(text.unicodeScalars)[...])
        try require(label.map { Array($0.utf8) } == Array(text.utf8), "'\(text)' is not encoded")
        _ = DomainName.ascii(text)
    }

    /// Data forms and pages of results.
    static let forms = FuzzTarget("forms", dictionary: "xml") { bytes in
        for element in try Element.all(in: bytes, of: Namespaces.dataForms) {
            if let page = ResultPage(in: element) { _ = "\(page)" }
            guard let form = DataForm(element) else { continue }
            let written = form.element
            try require(
                DataForm(written)?.element.canonical == written.canonical, "a form reads as another one")
            _ = (form.formType, form["secret"])
        }
    }

    /// What entities say of themselves: service discovery, contacts, cards.
    static let disco = FuzzTarget("disco", dictionary: "xml") { bytes in
        for element in try Element.all(in: bytes, of: Namespaces.discoInfo) {
            _ = (VCard(element), RosterItem(element))
            guard let info = DiscoInfo(element) else { continue }
            let verification = info.verification
            let again = DiscoInfo(info.element())
            try require(
                again?.element().canonical == info.element().canonical, "an answer reads as another one")
            // What is written leaves out a form's labels, which do not count.
            try require(again?.verification == verification, "the same answer has two verification strings")
        }
    }

    /// The copy of a stream for the log: it does not depend on how the stream is cut.
    ///
    /// Two passes, each of which takes one step a byte: instrumented, that is three times as slow as elsewhere.
    static let mask = FuzzTarget("mask", passes: 6, dictionary: "xml") { bytes in
        let half = bytes.count / 2
        let whole = masked([bytes[...]])
        try require(
            masked([bytes[..<half], bytes[half...]]) == whole, "cut in two the log says something else")
    }

    private static func masked(_ pieces: [ArraySlice<UInt8>]) -> [UInt8] {
        var mask = XMLMask()
        var shown: [UInt8] = []
        for piece in pieces { mask.read(piece, isShown: true) { shown += $0.utf8 } }
        return shown
    }
}
