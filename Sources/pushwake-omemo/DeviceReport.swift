import Omemo
import Simulation
import XMPPCore

/// Devices as a table or as JSON.
struct DeviceReport {
    let own: OmemoDevice
    let devices: [OmemoDevice]

    private struct Line: Encodable {
        var user: String
        var device: UInt32
        var versions: [String]
        var fingerprint: String?
        var trust: String?
        /// Whether it is the device of this store.
        var own: Bool
        /// Milliseconds since 1970.
        var lastListed: Int64?
    }

    func lines(isJSON: Bool, withOwn: Bool) throws -> [VisibleText] {
        let others = devices.filter { !isThisOne($0) }
        let listed = devices.first(where: isThisOne)
        if isJSON {
            return try ((withOwn ? [listed ?? own] : listed.map { [$0] } ?? []) + others).map(json)
        }
        var lines: [VisibleText] =
            withOwn || listed != nil ? ["\(own.jid)", "  \(words(own, "this device"))"] : []
        var user = own.jid
        for device in others {
            if device.jid != user || lines.isEmpty { lines.append("\(device.jid)") }
            user = device.jid
            lines.append("  \(words(device, device.trust.map { "\($0)" } ?? "no key yet"))")
        }
        return lines
    }

    private func isThisOne(_ device: OmemoDevice) -> Bool {
        device.jid == own.jid && device.device == own.device
    }

    private func words(_ device: OmemoDevice, _ state: String) -> String {
        let number = "\(device.device)".padded(to: 10)
        let isRemoved = device.versions.isEmpty && !isThisOne(device)
        let rest = [device.key?.fingerprint, isRemoved ? "on no list" : nil].compactMap(\.self)
        return ([number, state.padded(to: 11)] + rest).joined(separator: "  ")
    }

    private func json(_ device: OmemoDevice) throws -> VisibleText {
        let key = isThisOne(device) ? own.key : device.key
        let line = Line(
            user: device.jid.description, device: device.device.rawValue,
            versions: device.versions.map(\.namespace), fingerprint: key?.fingerprint,
            trust: device.trust.map { "\($0)" }, own: isThisOne(device),
            lastListed: device.lastListed?.milliseconds)
        return VisibleText(json: try OneLineJSON.text(line))
    }
}

extension String {
    /// Returns the text with spaces appended up to a width.
    fileprivate func padded(to width: Int) -> String {
        self + String(repeating: " ", count: max(0, width - count))
    }
}
