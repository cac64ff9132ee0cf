import TestThreads
import Testing
import XMPPCore

/// Attributes and texts as values: what is one, what is none, and what the error says.
@Suite(.ownThread) struct ElementValueTests {
    private enum Mood: String, CaseIterable, ForeignValue { case merry, sad }
    private enum Weather: String, ForeignValue { case rain }

    private func value<Value: ForeignValue>(_ text: String, _ type: Value.Type) -> Value? {
        try? Element("a", namespace: "urn:x", attributes: ["v": text]).value(of: "v", as: type)
    }

    private func error(_ body: () throws(ElementValueError) -> Void) throws -> ElementValueError {
        do throws(ElementValueError) { try body() } catch { return error }
        Issue.record("nothing was thrown")
        throw CancellationError()
    }

    // MARK: What is a value

    @Test(
        "X25 an integer is a sign, digits and white space around them, as XML Schema has it",
        arguments: [
            ("0", 0), ("7", 7), ("+7", 7), ("-7", -7), ("007", 7), ("-0", 0), (" 7\n", 7), ("\t-128\r", -128),
            ("127", 127), ("000000000000000000000000127", 127),
        ] as [(String, Int8)])
    func integers(text: String, expected: Int8) {
        #expect(value(text, Int8.self) == expected)
        #expect(value(text, Int.self) == Int(expected))
        #expect(value(text, Int64.self) == Int64(expected))
        #expect(value(text, UInt32.self) == UInt32(exactly: expected))
    }

    @Test(
        "X25 what is no integer of the type is none, however near it is",
        arguments: [
            "", " ", "128", "-129", "1 2", "+", "-", "--1", "+-1", "1.0", "1e2", "0x7", "\u{661}", "7\u{A0}",
            "７",
            "9999999999999999999999", "true", "7\u{301}", "7\u{0}",
        ])
    func notIntegers(text: String) {
        #expect(value(text, Int8.self) == nil)
        let limits = [String(Int64.max), String(Int64.min)]
        #expect(limits.map { value($0, Int64.self) } == [.max, .min])
        #expect(value("9223372036854775808", Int64.self) == nil && value("-1", UInt8.self) == nil)
        #expect(value("18446744073709551615", UInt64.self) == .max)
    }

    @Test("X25 a truth value is true, false, 1 or 0, with white space around it")
    func booleans() {
        #expect(["true", "1", " true ", "\n1"].map { value($0, Bool.self) } == [true, true, true, true])
        #expect(["false", "0", "0\t"].map { value($0, Bool.self) } == [false, false, false])
        for text in ["", "True", "TRUE", "yes", "t", "00", "+1", "tru e", "true\u{301}", "２"] {
            #expect(value(text, Bool.self) == nil, "\(text)")
        }
    }

    @Test("X25 times are those of the profile of XEP-0082")
    func times() throws {
        let time = try #require(value("1969-07-21T02:56:15Z", Timestamp.self))
        #expect(time.milliseconds == -14_159_025_000 && time.description == "1969-07-21T02:56:15.000Z")
        #expect(value(" 1969-07-20T21:56:15-05:00 ", Timestamp.self) == time)
        #expect(time < Timestamp(milliseconds: 0))
        #expect(value("1776-07-04", Timestamp.self) == nil && value("now", Timestamp.self) == nil)
    }

    @Test("X25 an address is prepared, and what is none is none")
    func addresses() throws {
        #expect(
            try value("Juliet@Capulet.example/balcony", JID.self) == JID("juliet@capulet.example/balcony"))
        for text in ["", "@", "a@", " a@b", "a@b/", "a b@c"] {
            #expect(value(text, JID.self) == nil, "\(text)")
        }
    }

    @Test("X25 a word of an enum is compared as bytes, white space and case count")
    func words() {
        #expect(value("merry", Mood.self) == .merry && value("rain", Weather.self) == .rain)
        for text in ["", "Merry", " merry", "merry\u{301}", "merr\u{79}\u{0}"] {
            #expect(value(text, Mood.self) == nil, "\(text)")
        }
        #expect(value("composing", ChatState.self) == .composing && value("get", IQ.Kind.self) == .get)
        #expect(value("groupchat", Message.Kind.self) == .groupchat)
        #expect(value("subscribed", Presence.Kind.self) == .subscribed)
        #expect(value("wait", StanzaError.Kind.self) == .wait && value("form", DataForm.Kind.self) == .form)
    }

    // MARK: Where it stands

    private let page = Element(
        "fin", namespace: Namespaces.mam, attributes: ["complete": "true", "xml:lang": "en"],
        children: [
            Element(
                "set", namespace: Namespaces.rsm,
                children: [
                    Element("first", namespace: Namespaces.rsm, attributes: ["index": "10"], text: "a"),
                    Element("count", namespace: Namespaces.rsm, text: "20"),
                ])
        ])

    @Test("X25 values are read from attributes, texts and paths; one that may be missing is nil")
    func places() throws {
        #expect(try page.value(of: "complete") == true)
        #expect(try page.value(of: "xml:lang", as: ForeignText.self) == "en")
        #expect(try page.optionalValue(of: "stable", as: Bool.self) == nil)
        #expect(try page.optionalValue(of: "complete", as: Bool.self) == true)
        let index: ElementPath = "{\(Namespaces.rsm)}set/first/@index"
        #expect(try page.value(at: index, as: Int.self) == 10)
        #expect(try page.value(at: "{http://jabber.org/protocol/rsm}set/count", as: UInt32.self) == 20)
        #expect(try page.optionalValue(at: "{\(Namespaces.rsm)}set/last", as: Int.self) == nil)
        #expect(try page.optionalValue(at: index, as: Int.self) == 10)
        #expect(try page.values(at: "{*}set/{*}*", as: ForeignText.self) == ["a", "20"])
        #expect(try page.values(at: "set/first", as: Int.self) == [])
        #expect(try Element("priority", namespace: "", text: " -5 ").value(as: Int8.self) == -5)
    }

    // MARK: Errors

    @Test("X25 an error names element, attribute and value, and says what to write")
    func errors() throws {
        let status = Element("status", namespace: "urn:x", attributes: ["code": "many", "mood": "blue"])
        let malformed = try error { () throws(ElementValueError) in
            _ = try status.value(of: "code", as: UInt8.self)
        }
        #expect(
            malformed.code == .malformed && malformed.element == "status" && malformed.namespace == "urn:x")
        #expect(malformed.place == .attribute("code") && malformed.value == "many")
        #expect(
            malformed.description
                == "Write a whole number from 0 to 255 into 'code' of <status xmlns='urn:x'/>, not 'many'.")
        #expect(malformed.stanzaError.condition == .badRequest)
        #expect(malformed.stanzaError.text == malformed.description)
        let missing = try error { () throws(ElementValueError) in
            let _: Bool = try status.value(of: "last")
        }
        #expect(missing.code == .missing && missing.value == nil)
        #expect(
            missing.description == "Write true, false, 1 or 0 into 'last' of <status xmlns='urn:x'/>.")
        let word = try error { () throws(ElementValueError) in
            _ = try status.optionalValue(of: "mood", as: Mood.self)
        }
        #expect(
            word.description == "Write one of merry, sad into 'mood' of <status xmlns='urn:x'/>, not 'blue'.")
        let unlisted = try error { () throws(ElementValueError) in
            _ = try status.value(of: "mood", as: Weather.self)
        }
        #expect(unlisted.expectation == "a Weather")
    }

    @Test("X25 an error about a text or a path says so")
    func errorPlaces() throws {
        let text = try error { () throws(ElementValueError) in _ = try page.value(as: Timestamp.self) }
        #expect(text.place == .text)
        #expect(
            text.description
                == "Write a time such as 2025-11-20T22:00:00Z as the text of <fin xmlns='urn:xmpp:mam:2'/>, not ''."
        )
        let index: ElementPath = "{*}set/first/@id"
        let path = try error { () throws(ElementValueError) in _ = try page.value(at: index, as: JID.self) }
        #expect(path.place == .path("{*}set/first/@id") && path.code == .missing)
        #expect(path.description.contains("at '{*}set/first/@id' of <fin"))
        let count = try error { () throws(ElementValueError) in
            _ = try page.optionalValue(at: "{*}set/first", as: Timestamp.self)
        }
        #expect(count.value == "a" && count.code == .malformed)
        let one = try error { () throws(ElementValueError) in
            _ = try page.values(at: "{*}set/{*}*", as: Int.self)
        }
        #expect(one.value == "a", "20 is one, but the first is none")
    }

    @Test("X25 what an error keeps and shows of a peer's text is short and visible")
    func hostileErrors() throws {
        let marks = "x" + String(repeating: "\u{301}", count: 500_000)
        let element = Element(marks, namespace: marks, attributes: ["v": "\u{1B}[2J\n/" + marks])
        let malformed = try error { () throws(ElementValueError) in
            _ = try element.value(of: "v", as: Int.self)
        }
        let limit = ElementValueError.maximumTextLength
        #expect(malformed.element.utf8.count <= limit && malformed.namespace.utf8.count <= limit)
        #expect(try #require(malformed.value).utf8.count <= limit)
        #expect(malformed.description.utf8.count < 1000)
        #expect(malformed.description.contains("not '\\u{1B}[2J\\u{A}/"))
        let path = try error { () throws(ElementValueError) in
            _ = try element.value(at: "\("\u{1B}[2J")/@v", as: Int.self)
        }
        #expect(path.description.contains("at '\\u{1B}[2J/@v' of <"))
    }

    @Test("X25 a megabyte of digits, blanks or marks costs its bytes, for each type")
    func linear() {
        let types: [any ForeignValue.Type] = [
            Int.self, UInt8.self, Bool.self, Timestamp.self, JID.self, Mood.self,
            ForeignText.self,
        ]
        let texts = ["0", " ", "\u{301}", "a"].map { String(repeating: $0, count: 1 << 20) }
        let time = processorTime {
            for type in types { for text in texts { _ = type.init(foreign: ForeignText(text)) } }
        }
        #expect(time < 3000)
        #expect(value(String(repeating: "0", count: 1 << 20) + "7", Int.self) == 7)
        #expect(value(String(repeating: " ", count: 1 << 20), Int.self) == nil)
    }
}
