@testable import Omemo
import TestThreads
import Testing
import XMPPCore
import XMPPTransport

@Suite(.ownThread) struct OmemoBundleTests {
    @Test("O3 a bundle comes back from its element as it was", arguments: OmemoVersion.allCases)
    func roundTrip(_ version: OmemoVersion) throws {
        let bundle = try Device(7).bundle(version)
        let element = try Element(parsing: bundle.element.serialized())
        #expect(try OmemoBundle(element, version) == bundle)
    }

    @Test("O3 the parts are named as the two versions of the XEP name them")
    func names() throws {
        let device = try Device(7)
        // Version 0.3, section 4.3.
        let legacy = try device.bundle(.legacy).element
        #expect(
            legacy.elements.map(\.name) == [
                "signedPreKeyPublic", "signedPreKeySignature", "identityKey", "prekeys",
            ])
        #expect(legacy.elements[0]["signedPreKeyId"] == "1")
        #expect(
            legacy.elements[3].elements.map { [$0.name, $0["preKeyId"] ?? ""] } == [
                ["preKeyPublic", "1"], ["preKeyPublic", "2"], ["preKeyPublic", "3"],
            ])
        // Version 0.9, section 5.3.2.
        let current = try device.bundle(.omemo2).element
        #expect(current.elements.map(\.name) == ["spk", "spks", "ik", "prekeys"])
        #expect(current.elements[0]["id"] == "1")
        #expect(
            current.elements[3].elements.map { [$0.name, $0["id"] ?? ""] } == [
                ["pk", "1"], ["pk", "2"], ["pk", "3"],
            ])
    }

    @Test("O7 both versions name the same identity, and its fingerprint can be read back")
    func identity() throws {
        let device = try Device(7)
        for version in OmemoVersion.allCases {
            #expect(IdentityKey(wire: try device.bundle(version).identityKey, version) == device.own.key)
        }
        let print = device.own.key.fingerprint
        #expect(print.split(separator: " ").map(\.count) == [Int](repeating: 8, count: 8))
        #expect(IdentityKey(fingerprint: print) == device.own.key)
        #expect(IdentityKey(fingerprint: print.uppercased().filter { $0 != " " }) == device.own.key)
        #expect(IdentityKey(fingerprint: String(print.dropLast())) == nil)
    }

    @Test(
        "O3 a bundle with a part missing, of a wrong size or without prekeys is refused",
        arguments: OmemoVersion.allCases)
    func malformed(_ version: OmemoVersion) throws {
        let good = try Device(7).bundle(version).element
        for index in good.elements.indices {
            for text in ["", "AAAA", "!", String(repeating: "A", count: 4000)] {
                var element = good
                var part = good.elements[index]
                part.children = [.text(ForeignText(text))]
                element.children[index] = .element(part)
                #expect(throws: OmemoError.self) { try OmemoBundle(element, version) }
            }
            var element = good
            element.children.remove(at: index)
            #expect(throws: OmemoError.self) { try OmemoBundle(element, version) }
        }
        #expect(throws: OmemoError.self) { try OmemoBundle(good, version == .legacy ? .omemo2 : .legacy) }
    }

    @Test("O3 prekeys that cannot be read are passed over, and a number counts once")
    func preKeys() throws {
        let good = try Device(7).bundle(.omemo2)
        var element = good.element
        var list = element.elements[3]
        list.append(Element("pk", namespace: list.namespace, attributes: ["id": "9"], text: "AAAA"))
        list.append(
            Element(
                "pk", namespace: list.namespace, attributes: ["id": "1"],
                text: Crypto.base64(good.preKeys[1].key)))
        list.append(
            Element(
                "pk", namespace: list.namespace, attributes: ["id": "4294967295"],
                text: Crypto.base64(good.preKeys[1].key)))
        element.children[3] = .element(list)
        #expect(try OmemoBundle(element, .omemo2) == good)
    }
}
