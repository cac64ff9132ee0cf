import Omemo
import TestThreads
import Testing
import XMPPCore

@Suite(.ownThread) struct OmemoDeviceListTests {
    private typealias Device = OmemoDeviceList.Device

    private func id(_ number: UInt32) throws -> OmemoDeviceID {
        try #require(OmemoDeviceID(rawValue: number))
    }

    private func list(_ xml: String) throws -> OmemoDeviceList? { OmemoDeviceList(try Element(parsing: xml)) }

    private func legacy(_ devices: String) throws -> [UInt32]? {
        let list = try list("<list xmlns='eu.siacs.conversations.axolotl'>\(devices)</list>")
        return list?.devices.map(\.id.rawValue)
    }

    @Test("O1 nodes, elements and the item are named as the two versions of the XEP name them")
    func names() throws {
        // Version 0.3, section 4.2, and version 0.9, section 5.3.1.
        let legacy = try Element(
            parsing: """
                <publish node='eu.siacs.conversations.axolotl.devicelist'><item id='current'>\
                <list xmlns='eu.siacs.conversations.axolotl'><device id='12345'/></list></item></publish>
                """)
        let omemo2 = try Element(
            parsing: """
                <publish node='urn:xmpp:omemo:2:devices'><item id='current'>\
                <devices xmlns='urn:xmpp:omemo:2'><device id='12345'/></devices></item></publish>
                """)
        for (version, publish) in [(OmemoVersion.legacy, legacy), (.omemo2, omemo2)] {
            let item = try #require(publish.firstElement)
            #expect(publish["node"] == version.deviceListNode)
            #expect(item["id"] == OmemoVersion.deviceListItem)
            let made = OmemoDeviceList(version, devices: [Device(try id(12345))])
            #expect(made.element == item.firstElement)
        }
    }

    @Test("O1 both forms are read and written, each in its own words")
    func bothForms() throws {
        let legacy =
            "<list xmlns='eu.siacs.conversations.axolotl'><device id='12345'/><device id='4223'/></list>"
        let omemo2 = """
            <devices xmlns='urn:xmpp:omemo:2'><device id='12345'/>\
            <device id='4223' label='Gajim on Ubuntu Linux' labelsig='b64/encoded/data'/></devices>
            """
        let first = try #require(try list(legacy))
        #expect(first.version == .legacy)
        #expect(first.devices == [Device(try id(12345)), Device(try id(4223))])
        #expect(first.element.serialized() == legacy)
        let second = try #require(try list(omemo2))
        #expect(second.version == .omemo2)
        let label = OmemoDeviceList.Label("Gajim on Ubuntu Linux", signature: "b64/encoded/data")
        #expect(second.devices == [Device(try id(12345)), Device(try id(4223), label: label)])
        #expect(second.element.serialized() == omemo2)
        // A label does not exist in the legacy form.
        let translated = OmemoDeviceList(.legacy, devices: second.devices)
        #expect(translated.element.serialized() == legacy)
    }

    @Test("O1 an empty list is a list")
    func empty() throws {
        #expect(try list("<list xmlns='eu.siacs.conversations.axolotl'/>")?.devices == [])
        #expect(try list("<devices xmlns='urn:xmpp:omemo:2'>\n</devices>")?.devices == [])
        #expect(
            OmemoDeviceList(.omemo2, devices: []).element.serialized()
                == "<devices xmlns='urn:xmpp:omemo:2'/>")
    }

    @Test(
        "O1 what is no device list is none",
        arguments: [
            "<list xmlns='urn:xmpp:omemo:2'/>", "<devices xmlns='eu.siacs.conversations.axolotl'/>",
            "<devices xmlns='urn:xmpp:omemo:1'/>", "<devices/>", "<bundle xmlns='urn:xmpp:omemo:2'/>",
        ])
    func otherElements(_ xml: String) throws {
        #expect(try list(xml) == nil)
    }

    @Test("O1 numbers run from 1 to 2^31 - 1, in digits; everything else is passed over")
    func numbers() throws {
        #expect(try legacy("<device id='1'/><device id='2147483647'/>") == [1, 2_147_483_647])
        for garbage in [
            "0", "-1", "+1", "2147483648", "4294967296", "99999999999999999999", "", " 1", "1.0", "0x1", "١",
            "one",
        ] {
            #expect(try legacy("<device id='\(garbage)'/><device id='7'/>") == [7], "\(garbage)")
        }
        #expect(
            try legacy("<device/><device id='7'/><other id='8'/><device xmlns='urn:x' id='9'/>text") == [7])
        #expect(OmemoDeviceID(rawValue: 0) == nil)
        #expect(OmemoDeviceID(rawValue: 0x8000_0000) == nil)
    }

    @Test("O1 a device that stands twice counts once, where it stands first")
    func duplicates() throws {
        #expect(try legacy("<device id='5'/><device id='3'/><device id='5'/><device id='05'/>") == [5, 3])
        let made = OmemoDeviceList(.legacy, devices: [Device(try id(5)), Device(try id(5))])
        #expect(made.devices.count == 1)
    }

    @Test("O2 a list of nothing but garbage, or an endless one, is not taken for an empty one")
    func unreadable() throws {
        #expect(try legacy("<device id='0'/>") == nil)
        #expect(try legacy("<device/><device id='x'/>") == nil)
        let many = (1...OmemoDeviceList.maximumDevices).map { "<device id='\($0)'/>" }.joined()
        #expect(try legacy(many)?.count == OmemoDeviceList.maximumDevices)
        #expect(try legacy(many + "<device id='1'/>") == nil)
    }

    @Test("O1 a label without a signature is ignored, and so is an endless one")
    func labels() throws {
        func label(_ attributes: String) throws -> ForeignText? {
            try list("<devices xmlns='urn:xmpp:omemo:2'><device id='1' \(attributes)/></devices>")?
                .devices.first?.label?.text
        }
        #expect(try label("label='Phone' labelsig='c2ln'") == "Phone")
        #expect(try label("label='Phone'") == nil)
        #expect(try label("labelsig='c2ln'") == nil)
        let longest = String(repeating: "ü", count: OmemoDeviceList.maximumLabelLength / 2)
        #expect(try label("label='\(longest)' labelsig='c2ln'") == longest)
        #expect(try label("label='\(longest)!' labelsig='c2ln'") == nil)
        #expect(
            try list(
                "<list xmlns='eu.siacs.conversations.axolotl'><device id='1' label='a' labelsig='b'/></list>")?
                .devices.first?.label == nil)
    }
}
