import XMPPCore

/// Shows the log what goes through a connection, masked.
///
/// It reads along even while nothing is shown, so that the switches work in the middle of a stream.
final class Transcript {
    private let log: AccountLog
    private let account: JID
    private var sent = XMLMask()
    private var received = XMLMask()

    init(_ log: AccountLog, _ account: JID) {
        self.log = log
        self.account = account
    }

    func sent(_ bytes: some Sequence<UInt8>) {
        sent.read(bytes, isShown: log.showsSentXML) { log.show($0, sent: true, account) }
    }

    func received(_ bytes: some Sequence<UInt8>) {
        received.read(bytes, isShown: log.showsReceivedXML) { log.show($0, sent: false, account) }
    }
}
