public import XMPPCore

/// The number of a device, unique in its user's account: 1 to 2^31 - 1 (XEP-0384 section 5.1).
///
/// ```swift
/// let device = OmemoDeviceID(rawValue: 31_415_926)
/// ```
public struct OmemoDeviceID:
    PrintedRawValue, RawRepresentable, Hashable, Comparable, Sendable, Codable, CustomStringConvertible
{
    /// 1 to 2 147 483 647.
    public let rawValue: UInt32

    /// Takes a number. Nil for 0 and for those of 2^31 and more.
    ///
    /// - Parameter rawValue: 1 to 2 147 483 647.
    public init?(rawValue: UInt32) {
        guard (1...UInt32(Int32.max)).contains(rawValue) else { return nil }
        self.rawValue = rawValue
    }

    /// Reads the number from XML: ASCII digits and nothing else. Nil for anything else.
    ///
    /// - Parameter text: Value of an attribute; nil when there is none.
    package init?(_ text: ForeignText?) {
        // UInt32 would also read a sign.
        guard let text, text.utf8.allSatisfy({ (0x30...0x39).contains($0) }), let number = UInt32(text)
        else { return nil }
        self.init(rawValue: number)
    }

    public static func < (left: OmemoDeviceID, right: OmemoDeviceID) -> Bool {
        left.rawValue < right.rawValue
    }
}

/// The devices with which a user reads encrypted messages, as the user's PEP node lists them.
///
/// ```swift
/// let list = OmemoDeviceList(.omemo2, devices: [.init(phone), .init(laptop)])
/// PubSubItem(id: OmemoVersion.deviceListItem, payload: list.element)
/// ```
///
/// Source: XEP-0384 section 5.3.1; for `OmemoVersion.legacy` section 4.2 of its version 0.3.
package struct OmemoDeviceList: Hashable, Sendable {
    /// The label of a device. Show it only after the signature was verified with the device's identity key.
    ///
    /// ```swift
    /// let name = device.label?.text ?? "device \(device.id)"
    /// ```
    package struct Label: Hashable, Sendable {
        /// The name, up to ``OmemoDeviceList/maximumLabelLength`` bytes of UTF-8.
        package let text: ForeignText
        /// The signature of the name, in Base64 as it came.
        package let signature: ForeignText

        /// Takes a name with its signature; neither is verified.
        ///
        /// - Parameters:
        ///   - text: The name.
        ///   - signature: The signature, in Base64.
        package init(_ text: some TextConvertible, signature: some TextConvertible) {
            self.text = text.foreignText
            self.signature = signature.foreignText
        }
    }

    /// A device of the list.
    ///
    /// ```swift
    /// let phone = OmemoDeviceList.Device(OmemoDeviceID("31415926")!)
    /// ```
    package struct Device: Hashable, Sendable {
        /// Its number.
        package let id: OmemoDeviceID
        /// Its name, not verified; nil when it has none or none that is signed. Always nil in a legacy list.
        package let label: Label?

        /// Describes a device.
        ///
        /// - Parameters:
        ///   - id: Its number.
        ///   - label: Its name; nil for none.
        package init(_ id: OmemoDeviceID, label: Label? = nil) {
            self.id = id
            self.label = label
        }
    }

    /// The maximum number of devices in an accepted list.
    package static let maximumDevices = 256
    /// The longest label that is kept, in bytes of UTF-8; XEP-0384 recommends fewer than 53 characters.
    package static let maximumLabelLength = 256
    /// The longest signature of a label that is kept, in bytes of Base64; one has 88.
    static let maximumSignatureLength = 256

    /// The version that defines the form of the list.
    package let version: OmemoVersion
    /// The devices in the order of the list, each once.
    package let devices: [Device]

    /// Makes a list. Of devices with the same number the first one stays.
    ///
    /// - Parameters:
    ///   - version: Whose form the list has.
    ///   - devices: The devices, in order.
    package init(_ version: OmemoVersion, devices: [Device]) {
        self.version = version
        var seen: Set<OmemoDeviceID> = []
        self.devices = devices.filter { seen.insert($0.id).inserted }
    }

    /// Reads `<list/>` or `<devices/>`.
    ///
    /// Entries without a valid number and elements that are unknown are passed over. Nil when the element is no
    /// device list, when it has more than ``maximumDevices`` entries, and when it has entries of which none is valid:
    /// such a list must not be taken for an empty one, which would remove all devices.
    ///
    /// - Parameter element: What the item holds.
    package init?(_ element: Element) {
        let version = OmemoVersion.allCases.first {
            element.has(name: $0.deviceListElement, namespace: $0.namespace)
        }
        guard let version else { return nil }
        let entries = element.children("device", version.namespace)
        let devices = entries.compactMap { Device($0, version: version) }
        guard entries.count <= Self.maximumDevices, entries.isEmpty || !devices.isEmpty else { return nil }
        self.init(version, devices: devices)
    }

    /// The list as the payload of its item.
    package var element: Element {
        Element(
            version.deviceListElement, namespace: version.namespace,
            children: devices.map { $0.element(version: version) })
    }
}

extension OmemoDeviceList.Device {
    fileprivate init?(_ element: Element, version: OmemoVersion) {
        guard let id = OmemoDeviceID(element["id"]) else { return nil }
        // "The label attribute MUST be ignored if no labelsig attribute is present" (section 5.3.1).
        guard version == .omemo2, let text = element["label"], let signature = element["labelsig"],
            text.utf8.count <= OmemoDeviceList.maximumLabelLength,
            signature.utf8.count <= OmemoDeviceList.maximumSignatureLength
        else {
            self.init(id)
            return
        }
        self.init(id, label: OmemoDeviceList.Label(text, signature: signature))
    }

    fileprivate func element(version: OmemoVersion) -> Element {
        let label = version == .omemo2 ? label : nil
        return Element(
            "device", namespace: version.namespace,
            attributes: ["id": id.description, "label": label?.text, "labelsig": label?.signature])
    }
}
