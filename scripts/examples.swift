// What the examples in documentation comments use and do not declare. scripts/examples.py compiles both; nothing of it runs.
//
// A value that most examples mean in the same way is global. `Example_Name` has the values of the examples in the file Name.swift,
// or in the module Name; every other example is in `Example`.
import Foundation
import HandlerMacrosSupport
import Testing

@testable import AccountTestKit
@testable import Handlers
import HandlersPostgres
@testable import HandlersTestKit
@testable import IQTracker
@testable import Omemo
@testable import PubSub
@testable import Upload
@testable import XMPPAccount
@testable import XMPPCore
@testable import XMPPModules
@testable import XMPPTestKit
@testable import XMPPTransport

enum Example {}

/// A value of any type, never computed.
func any<Value: ~Copyable>() -> Value { fatalError() }

// MARK: Stores and steps

var path: String { any() }
var registry: HandlerRegistry { any() }
var store: HandlerStore { any() }
var runner: HandlerRunner { any() }
var step: Step { any() }
var shop: Schema { any() }
var orders: Schema { any() }
var entry: HandlerLog.Entry { any() }
var text: String { any() }
var id: HandlerID<Payment> { any() }
var payment: Payment { any() }
func show(_ row: Int64) {}
func page(_ text: String) {}

struct Reply: Sendable { var word: String }
struct Payment: Codable, Sendable { var cents: Int }
protocol Bank: Sendable { func charge(_ cents: Int, key: String) async throws -> String }
struct HTTPBank: Bank {
    var url = ""
    func charge(_ cents: Int, key: String) async throws -> String { any() }
}
struct PriceList: Sendable {}
struct Forecast: Sendable { var text: ForeignText? }
struct Color { var name: String }
struct MessageStored: DurableEvent {
    static let id = "demo.message-stored"
    var row: Int64
}
struct StartError: Error {
    init(_ text: String) {}
}
struct UploadSlot: RestorableContext, Codable { var url: String }
func put(_ file: String, at url: String, key: String) async throws {}
func exchangeRate(key: String) async throws -> Double { any() }

struct Greet: Handler {
    static let id = "demo.greet"
    var name: String
    func run(_ call: borrowing Call<Reply>) throws {}
}
struct Thank: Handler {
    static let id = "shop.thank"
    var customer: String
    func run(_ call: borrowing Call<Payment>) throws {}
}
struct NotPaid: Handler {
    static let id = "shop.not-paid"
    var customer: String
    func run(_ call: borrowing Call<Invalidation>) throws {}
}
struct Remind: Handler {
    static let id = "shop.remind"
    var customer: String
    func run(_ call: borrowing Call<TimerFired>) throws {}
}
struct Paid: Handler {
    static let id = "shop.paid"
    var order: String
    func run(_ call: borrowing Call<SignalReceived<Payment>>) throws {}
}

struct Confirm: Handler {
    static let id = "shop.confirm"
    var order: String
    func run(_ call: borrowing Call<Joined>) throws {}
}

struct Reminder: Handler {
    static let id = "demo.reminder"
    var text: String
    func run(_ call: borrowing Call<TimerFired>) throws {}
}
/// Handlers of the shop that a runner calls, for workflows.
struct Ask: Handler {
    static let id = "shop.ask"
    var supplier: String
    func run(_ call: borrowing Call<TimerFired>) throws {}
}
struct Charge: Handler {
    static let id = "shop.charge"
    var order: String
    var cents: Int
    func run(_ call: borrowing Call<TimerFired>) throws {}
}
struct Reserve: Handler {
    static let id = "shop.reserve"
    var order: String
    func run(_ call: borrowing Call<TimerFired>) throws {}
}
struct Wrap: Handler {
    static let id = "shop.wrap"
    var order: String
    func run(_ call: borrowing Call<TimerFired>) throws {}
}
struct Release: Handler {
    static let id = "shop.release"
    var order: String
    func run(_ call: borrowing Call<Invalidation>) throws {}
}
struct CloseShop: Handler {
    static let id = "shop.close"
    func run(_ call: borrowing Call<TimerFired>) throws {}
}
struct Ledger: Handler {
    static let id = "shop.ledger"
    func run(_ call: borrowing Call<SignalReceived<Payment>>) throws {}
}
struct Text: RestorableContext, Codable {
    var text: String
    init(_ text: String) { self.text = text }
}
struct Mail: Handler {
    static let id = "shop.mail"
    var to: String
    func run(_ call: borrowing Call<Text>) throws {}
}
struct FetchAvatar: AsyncHandler {
    static let id = "shop.fetch-avatar"
    var of: String
    func run(_ call: AsyncCall<Text>) async throws {}
}

// MARK: Accounts

var account: Account { any() }
var configuration: AccountConfiguration {
    get { any() }
    set {}
}
var configurations: [AccountConfiguration] { any() }
var password: String { any() }
var romeo: JID { any() }
var juliet: JID { any() }
var tybalt: JID { any() }
var iago: JID { any() }
var peer: JID { any() }
var server: JID { any() }
var service: JID { any() }
var council: JID { any() }
var element: Element { any() }
var message: Message { any() }
var ping: IQ { any() }
var node: String { any() }
var token: String { any() }
func send(_ element: Element) {}
func send(_ text: String) {}

/// As in swift-log.
struct Logger: Sendable {
    enum Level: String { case debug }
    func log(level: Level, _ message: String) {}
    func error(_ message: String) {}
}
let logger = Logger()

enum Greeter {
    @Handler("greeter.answered")
    static func answered(_ call: borrowing Call<IQReply>, name: String) throws {}
}
enum Version {
    struct Asked: Handler {
        static let id = "version.asked"
        func run(_ call: borrowing Call<IQRequest>) throws {}
    }
}
enum Door {
    struct Seen: Handler {
        static let id = "door.presence"
        func run(_ call: borrowing Call<PresenceReceived>) throws {}
    }
}
struct Enabled: Handler {
    static let id = "carbons.enabled"
    func run(_ call: borrowing Call<IQReply>) throws {}
}
enum Contacts {
    @Handler("contacts.saved")
    static func saved(_ call: borrowing Call<IQReply>) throws {}
    @Handler("contacts.removed")
    static func removed(_ call: borrowing Call<IQReply>) throws {}
    @Handler("contacts.decided")
    static func decided(_ call: borrowing Call<SubscriptionDecision>) throws {}
    @Handler("contacts.card-fetched")
    static func cardFetched(_ call: borrowing Call<VCardFetch>) throws {}
}
enum Council {
    @Handler("council.joined")
    static func joined(_ call: borrowing Call<RoomJoined>) throws {}
    @Handler("council.banned")
    static func banned(_ call: borrowing Call<IQReply>) throws {}
}
enum History {
    @Handler("history.shown")
    static func shown(_ call: borrowing Call<ArchivePage>) throws {}
}
enum Peace {
    @Handler("peace.made")
    static func made(_ call: borrowing Call<IQReply>) throws {}
}
enum Echo {
    @Handler("echo.received")
    static func received(_ call: borrowing Call<MessageReceived>) throws {}
}
enum Album {
    @Handler("album.sent")
    static func sent(_ call: borrowing Call<UploadEnded>, photo: Int64) throws {}
}
enum Conversation {
    @Handler("conversation.heard")
    static func heard(_ call: borrowing Call<OmemoReceived>) throws {}
}

// MARK: Publish-subscribe

enum Profile {
    @Handler("profile.nick-changed")
    static func nickChanged(_ call: borrowing Call<PubSubEvent>) throws {}
    @Handler("profile.nick-fetched")
    static func nickFetched(_ call: borrowing Call<PubSubFetch.Of<UserNick>>) throws {}
    @Handler("profile.fetched")
    static func fetched(_ call: borrowing Call<PubSubFetch>) throws {}
    @Handler("profile.saved")
    static func saved(_ call: borrowing Call<PubSubPublication>) throws {}
}
enum Club {
    @Handler("club.asked")
    static func asked(_ call: borrowing Call<PubSubSubscriptionRequested>) throws {}
}
enum Diary {
    @Handler("diary.purged")
    static func purged(_ call: borrowing Call<PubSubCompletion>) throws {}
}
enum Reader {
    @Handler("reader.subscribed")
    static func subscribed(_ call: borrowing Call<PubSubAnswer<PubSubSubscription>>) throws {}
}

struct Mood: PubSubPayload, Codable {
    static let node = "urn:example:mood"
    var text: String
    var since: Int64
}
enum Conversations {
    @Handler("conversations.noted")
    static func noted(_ call: borrowing Call<PubSubPublication>) throws {}
}
struct PageFetched: Handler {
    static let id = "page.fetched"
    func run(_ call: borrowing Call<PubSubAnswer<PubSubPage>>) throws {}
}

// MARK: Values of one file or module

enum Example_AccountTestKit {
    static func greetings(in store: HandlerStore) throws -> [String] { any() }
}
enum Example_Flow {
    static var flow: Flow { any() }
    static var customer: String { any() }
    static var suppliers: [String] { any() }
}
enum Example_Durable {
    static var then: Durable<PubSubFetch> { any() }
}
enum Example_Step {
    static var then: Durable<Forecast> { any() }
}
enum Example_IdentityKey {
    static var scanned: String { any() }
    static var device: OmemoDevice { any() }
}
enum Example_OmemoError {
    static var call: Call<OmemoReceived> { any() }
}
enum Example_OmemoReceived {
    static var call: Call<OmemoReceived> { any() }
}
enum Example_OmemoTrust {
    static var key: IdentityKey { any() }
}
enum Example_PubSubSubscriptionRequest {
    static var request: PubSubSubscriptionRequest { any() }
}
enum Example_AvatarMetadata {
    static var sha1: String { any() }
}
enum Example_PubSubError {
    static var error: PubSubError { any() }
}
enum Example_PubSubOperation {
    static var call: Call<PubSubFetch> { any() }
}
enum Example_DisplayedState {
    static var call: Call<MessageReceived> { any() }
}
enum Example_AesgcmLink {
    static var link: AesgcmLink { any() }
    static var bytes: [UInt8] { any() }
    static var pieces: [[UInt8]] { any() }
    static func put(_ bytes: [UInt8]) {}
}
enum Example_UploadEnded {
    static var call: Call<UploadEnded> { any() }
}
enum Example_UploadError {
    static var call: Call<UploadEnded> { any() }
}
enum Example_Upload {
    static var photo: UploadFile { any() }
}

enum Example_Account_Session {
    static var request: IQ { any() }
    static var presence: Element {
        get { any() }
        set {}
    }
}
enum Example_AccountConfiguration {
    static var metrics: Metrics { any() }
    static var hasPower: Bool { any() }
    struct Metrics: Sendable {
        func count(_ error: any Error) {}
    }
}
enum Example_Deferral {
    static var call: Call<MessageReceived> { any() }
}
enum Example_DeferredStanza {
    static var call: Call<MessageReceived> { any() }
}
enum Example_AccountLog {
    static var log: AccountLog { any() }
}
enum Example_AccountModule {
    static var archive: JID { any() }
    static var request: IQ { any() }
    static var time: Element { any() }
    static var enable: Element { any() }
    static let lastMessageAt = Timestamp(milliseconds: 0)
}
enum Example_ModuleHooks {
    static var enable: IQ { any() }
}
enum Example_AcknowledgedStanza {
    struct MessageKey: Codable {
        var chat: String
        var row: Int64
    }
    static func markSent(_ key: MessageKey?) throws {}
}
enum Example_XMPPCore {
    static var item: Element { any() }
    static var info: Element { any() }
    static var child: Element { any() }
    static var fin: Element { any() }
    static var x: Element { any() }
    static var delay: Element { any() }
    static var status: Element { any() }
    static var answer: Element { any() }
    static var result: Element { any() }
    static var iq: IQ { any() }
    static var request: IQ { any() }
    static var sender: JID { any() }
    static var sent: Message { any() }
    static var received: Message { any() }
    static var state: ChatState { any() }
    static var input: String { any() }
    static var parser: StreamParser { any() }
    static var bytes: [UInt8] { any() }
    static func handle(_ event: StreamParser.Event) {}
    static func close(sending error: StreamError?) {}
    static func hide(_ id: ForeignText?, because retraction: ForeignText?) {}
}
enum Example_ChatModule {
    static var id: ForeignText { any() }
}
enum Example_PushRegistration {
    static var secret: String { any() }
}
enum Example_Room {
    static var event: RoomEvent { any() }
}
enum Example_VCard {
    static var card: VCard { any() }
    static func show(_ bytes: [UInt8], type: ForeignText) {}
}
enum Example_XMPPTestKit {
    static var server: ScriptedServer { any() }
    static var alice: JID { any() }
    static var folder: String { any() }
    static var certificate: TestCertificates.ServerCertificate { any() }
    static var certificates: TestCertificates { any() }
}

// MARK: For the package

@testable import Platform
@testable import PushwakeCommands
@testable import TestServers
@testable import World

enum Example_ProcessSlot_Changes {
    static var slot: ProcessSlot { any() }
    static var signal: WakeSignal { any() }
}
enum Example_PeerRule {
    static var answer: IQ { any() }
    static var own: JID { any() }
}
enum Example_Errno {
    static var file: OpenFile { any() }
    static var bytes: UnsafeRawBufferPointer { any() }
}
enum Example_TestServers {
    static var folder: String { any() }
    static var certificate: String { any() }
    static var key: String { any() }
    static var port: UInt16 { any() }
    static var server: ProsodyServer { any() }
    static var peer: SlixmppPeer { any() }
}
enum Example_Connection {
    static var connection: XMPPTransport.Connection { any() }
    static var bytes: [UInt8] { any() }
    static var input: [UInt8] {
        get { any() }
        set {}
    }
}
enum Example_EventLoop {
    static var signal: WakeSignal { any() }
    static var isDone: Bool { any() }
}
enum Example_SimulatedMachine {
    static var files: SQLiteFileSystem { any() }
}
enum Example_OmemoDeviceList {
    static var phone: OmemoDeviceID { any() }
    static var laptop: OmemoDeviceID { any() }
    static var device: OmemoDeviceList.Device { any() }
}
enum Example_ArchiveService {
    static var server: ScriptedServer { any() }
    static var archive: ArchiveService { any() }
    static var alice: JID { any() }
}
