// Never run; in both targets. The address and the password belong into the keychain of the app group.
import Foundation
import MessengerCore

extension Messenger {
    static func opened(as part: Part) throws -> Messenger {
        let group = "group.org.example.messenger"
        guard let folder = FileManager.default.containerURL(forSecurityApplicationGroupIdentifier: group)
        else {
            throw CocoaError(.fileNoSuchFile)
        }
        let defaults = UserDefaults(suiteName: group)
        return try Messenger(
            folder: folder, address: defaults?.string(forKey: "address") ?? "",
            password: defaults?.string(forKey: "password") ?? "", as: part)
    }
}
