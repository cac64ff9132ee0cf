import FoundationEssentials
import Handlers
import Omemo
import PushwakeCommands
import XMPPCore

/// Lists devices with their fingerprints and sets their trust, also while another program uses the store.
struct OmemoCommand {
    private enum Action {
        /// The devices of all users, or of one user.
        case list(JID?)
        case trust(JID, which: String, OmemoTrust)
    }

    private let action: Action
    private let file: String
    /// The account in the store; nil if the store has only one.
    private let account: JID?
    private let isJSON: Bool

    init(_ words: [String]) throws {
        let arguments = try Arguments(words, of: "omemo", wordCount: 4)
        file = try arguments.required("--store")
        account = try arguments.value("--jid").map(Self.address)
        isJSON = arguments.has("--json")
        action = try Self.action(arguments.words)
    }

    private static func action(_ words: [String]) throws -> Action {
        switch (words.first ?? "list", words.count) {
        case ("list", 0...1): return .list(nil)
        case ("list", 2): return .list(try address(words[1]))
        case ("trust", 4):
            guard let trust = OmemoTrust.allCases.first(where: { "\($0)" == words[3] }) else {
                let known = OmemoTrust.allCases.map { "\($0)" }.joined(separator: ", ")
                throw UsageError("'\(words[3])' is no decision; there are \(known)")
            }
            return .trust(try address(words[1]), which: words[2], trust)
        case ("trust", _): throw UsageError("trust takes a user, a key and a decision")
        default: throw UsageError("there is no command '\(words.joined(separator: " "))'")
        }
    }

    private static func address(_ text: String) throws(UsageError) -> JID {
        guard let jid = try? JID(text), jid.local != nil else {
            throw UsageError("'\(text)' is no address; write user@domain")
        }
        return jid.bare
    }

    func run() throws {
        guard FileManager.default.fileExists(atPath: file) else {
            throw CommandFailure("there is no file \(file); name the store of the program to look at")
        }
        let store = try HandlerStore(path: file, registry: HandlerRegistry())
        for line in try lines(store) { Terminal.say(line) }
    }

    private func lines(_ store: HandlerStore) throws -> [VisibleText] {
        switch action {
        case .list(let user): try store.read { try list(user, in: $0) }
        case .trust(let user, let which, let trust):
            try store.step { try setTrust(trust, in: which, of: user, in: $0) }
        }
    }

    private func list(_ user: JID?, in source: borrowing some Readable) throws -> [VisibleText] {
        let (id, own) = try chosen(in: source)
        let keyring = OmemoKeyring(account: id)
        let users = try user.map { [$0] } ?? keyring.users(in: source)
        var devices: [OmemoDevice] = []
        for user in users { devices += try keyring.devices(of: user, in: source) }
        if let user, devices.isEmpty {
            throw CommandFailure("no device of \(user) is known; a message to them fetches what there is")
        }
        return try DeviceReport(own: own, devices: devices).lines(isJSON: isJSON, withOwn: user == nil)
    }

    private func setTrust(
        _ trust: OmemoTrust, in which: String, of user: JID, in step: borrowing Step
    ) throws -> [VisibleText] {
        let (id, own) = try chosen(in: step)
        let keyring = OmemoKeyring(account: id)
        let key = try key(which, of: user, keyring, in: step)
        guard try keyring.set(trust, in: key, of: user, in: step) else {
            throw CommandFailure("\(user) never had the key \(key.fingerprint); compare the fingerprint")
        }
        let devices = try keyring.devices(of: user, in: step).filter { $0.key == key }
        if isJSON { return try DeviceReport(own: own, devices: devices).lines(isJSON: true, withOwn: false) }
        return ["\(user): the key \(key.fingerprint) is \(trust) now"]
    }

    /// Returns the selected account.
    private func chosen(in source: borrowing some Readable) throws -> (id: Int64, own: OmemoDevice) {
        let hasTables = try source.first("SELECT 1 FROM sqlite_schema WHERE name = 'omemo_own'") { _ in true }
        let accounts = hasTables == nil ? [] : try OmemoKeyring.accounts(in: source)
        let matching = accounts.filter { account == nil || $0.own.jid == account }
        switch matching.count {
        case 1: return matching[0]
        case 0:
            let whose = account.map { "\($0)" } ?? "any account"
            throw CommandFailure("the store \(file) holds no OMEMO device of \(whose)")
        default:
            let names = matching.map { "\($0.own.jid)" }.joined(separator: ", ")
            throw UsageError("the store has several accounts (\(names)); say which with --jid")
        }
    }

    /// Returns the key with a fingerprint, or the key of a device.
    private func key(
        _ text: String, of user: JID, _ keyring: OmemoKeyring, in source: borrowing some Readable
    ) throws -> IdentityKey {
        if let key = IdentityKey(fingerprint: text) { return key }
        guard let number = UInt32(text), let device = OmemoDeviceID(rawValue: number) else {
            throw UsageError("'\(text)' is neither a fingerprint nor the number of a device")
        }
        let known = try keyring.devices(of: user, in: source).first { $0.device == device }
        guard let key = known?.key else {
            throw CommandFailure(
                "no key of a device \(number) of \(user) is known; see 'pushwake omemo list \(user)'")
        }
        return key
    }
}
