import XMPPCore
import XMPPTestKit

/// Combining marks in each place of a stanza beside as many bytes of `a`: read from the wire, made a stanza, compared and
/// hashed. Swift's own strings spend quadratic time on the marks.
struct HostileTextBenchmark: Benchmark {
    private static let turns = 21
    /// The largest that fits into a stanza of 1 MiB with its markup, the largest name, and the largest part of an address.
    private static let (value, name, part) = ((1 << 20) - 512, 49_990, 1023)

    private struct Place: Sendable {
        let name: String
        let bytes: Int
        let stanza: @Sendable (String) -> String
        let read: @Sendable (Element) throws -> AnyHashable?

        init(
            _ name: String, _ bytes: Int, _ stanza: @escaping @Sendable (String) -> String,
            _ read: @escaping @Sendable (Element) throws -> AnyHashable? = { $0 }
        ) {
            (self.name, self.bytes, self.stanza, self.read) = (name, bytes, stanza, read)
        }
    }

    private static let places = [
        Place("attribute", value, { "<message type='\($0)'/>" }, { try Message(element: $0).type }),
        Place("id", value, { "<message id='\($0)'/>" }, { try Message(element: $0).id }),
        Place("body", value, { "<message><body>\($0)</body></message>" }, { try Message(element: $0).body }),
        Place("namespace", value, { "<message><x xmlns='\($0)'/></message>" }),
        Place("name", name, { "<message><a\($0)/></message>" }),
        Place("attribute-name", name, { "<message a\($0)='1'/>" }),
        Place("node", value, { "<iq type='get' id='1'><query xmlns='urn:x' node='\($0)'/></iq>" }) {
            try IQ(element: $0).payload?["node"]
        },
        Place("form-field", value, { "<message><x xmlns='jabber:x:data'><field var='\($0)'/></x></message>" })
        {
            $0.firstElement.flatMap { DataForm($0) }
        },
        Place("feature", value, { "<message><feature var='\($0)'/></message>" }) {
            Set($0.elements.compactMap { $0["var"] })
        },
        Place("subject", value, { "<message><subject>\($0)</subject></message>" }) { $0.firstElement?.text },
        Place(
            "cdata", value, { "<message><body><![CDATA[\($0)]]></body></message>" },
            { try Message(element: $0).body }),
        Place("end-tag", name, { "<message><a\($0)></a\($0)></message>" }),
        Place(
            "item-id", value,
            {
                """
                <message><event xmlns='http://jabber.org/protocol/pubsub#event'><items node='n'><item id='\($0)'/></items>\
                </event></message>
                """
            }
        ) { $0.firstElement?.firstElement?.firstElement?["id"] },
        Place(
            "nickname", value,
            {
                """
                <presence from='room@b.example/old' type='unavailable'><x xmlns='http://jabber.org/protocol/muc#user'>\
                <item nick='\($0)'/></x></presence>
                """
            }
        ) { $0.firstElement?.firstElement?["nick"] },
        Place("resource", part, { "<presence from='a@b.example/\($0)'/>" }) {
            try Presence(element: $0).from
        },
    ]

    var names: [String] {
        Self.places.flatMap { ["client/hostile-text/\($0.name)", "client/hostile-text/\($0.name)-refused"] }
    }

    func run(in workspace: Workspace) throws -> [Line] {
        try Self.places.flatMap { place in
            // One byte more than fits is refused, which must not cost more either.
            let over = place.bytes == Self.part ? place.bytes + 1 : (1 << 20) + 1
            return [
                try line(place, place.bytes, "client/hostile-text/\(place.name)"),
                try line(place, over, "client/hostile-text/\(place.name)-refused"),
            ]
        }
    }

    private func line(_ place: Place, _ bytes: Int, _ name: String) throws -> Line {
        var times: (marks: [Double], plain: [Double]) = ([], [])
        let streams = (
            Self.stream(place, HostileText.marks(bytes)),
            Self.stream(place, String(repeating: "a", count: bytes))
        )
        for _ in 0..<Self.turns {
            times.marks.append(Self.time(place, streams.0))
            times.plain.append(Self.time(place, streams.1))
        }
        return Line(
            name, unit: "ms", better: .less, ours: times.marks.median, reference: times.plain.median,
            referenceName: "as many a", goal: 1.0 / 3)
    }

    private static func stream(_ place: Place, _ text: String) -> [UInt8] {
        Serializer.streamHeader(to: "a@b.example") + Array(place.stanza(text).utf8)
    }

    /// Milliseconds; a text that is refused is read up to the error.
    private static func time(_ place: Place, _ stream: [UInt8]) -> Double {
        let start = ContinuousClock.now
        if let parser = try? StreamParser(), let events = try? parser.parse(stream) {
            for case .element(let element) in events {
                guard let value = try? place.read(element), let copy = try? place.read(element) else {
                    continue
                }
                precondition(value == copy && Set([value]).contains(copy))
            }
        }
        return (ContinuousClock.now - start) / .milliseconds(1)
    }
}
