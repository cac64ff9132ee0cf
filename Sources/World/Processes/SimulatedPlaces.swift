import Handlers
import Platform
package import XMPPAccount
import XMPPTransport

/// The places where the processes of a simulated machine agree on an account's owner: locks, records and requests.
///
/// `@unchecked Sendable`: one thread uses it.
package final class SimulatedPlaces: @unchecked Sendable {
    fileprivate struct Account {
        var holder: SimulatedDisk.Process?
        /// The records since the last power loss, oldest first. The first may be older than that loss.
        var records: [SentProgress?] = [nil]
        /// The process that listens, and the function that answers once it is set.
        var listener: SimulatedDisk.Process?
        var decide: (@Sendable (OwnerQuestion) -> OwnerAnswer)?
    }

    fileprivate var accounts: [Int64: Account] = [:]
    /// Runs code of a process while another process waits for it.
    package var run: (SimulatedDisk.Process, () -> OwnerAnswer) -> OwnerAnswer = { $1() }
    /// The number of records from which a power loss chooses one at random.
    private static let keptRecords = 4

    package init() {}

    /// The places from the view of a process.
    package func places(of process: SimulatedDisk.Process) -> any OwnerPlaces {
        ProcessPlaces(places: self, process: process)
    }

    package func processDied(_ process: SimulatedDisk.Process) {
        for (number, var account) in accounts {
            if account.holder === process { account.holder = nil }
            if account.listener === process { (account.listener, account.decide) = (nil, nil) }
            accounts[number] = account
        }
    }

    /// Kills all processes. The record in the file may then be an older one, or missing.
    package func losePower(using random: inout some RandomNumberGenerator) {
        for number in accounts.keys.sorted() {
            let record = accounts[number]?.records.randomElement(using: &random) ?? nil
            accounts[number] = Account(records: [record])
        }
    }

    fileprivate func record(_ sent: SentProgress, _ number: Int64) {
        accounts[number, default: Account()].records.append(sent)
        if accounts[number]?.records.count ?? 0 > Self.keptRecords { accounts[number]?.records.removeFirst() }
    }
}

private struct ProcessPlaces: OwnerPlaces {
    let places: SimulatedPlaces
    let process: SimulatedDisk.Process

    func open(account: Int64, _ store: HandlerStore) throws -> any OwnerPlace {
        SimulatedPlace(places, process, account)
    }

    func sent(account: Int64, _ store: HandlerStore) -> SentProgress? {
        places.accounts[account]?.records.last ?? nil
    }

    func isLocked(account: Int64, _ store: HandlerStore) -> Bool {
        places.accounts[account]?.holder != nil
    }
}

private final class SimulatedPlace: OwnerPlace {
    private let places: SimulatedPlaces
    private let process: SimulatedDisk.Process
    private let number: Int64
    let narrowedFile: String? = nil
    private(set) var holdsLock = false

    init(_ places: SimulatedPlaces, _ process: SimulatedDisk.Process, _ number: Int64) {
        (self.places, self.process, self.number) = (places, process, number)
    }

    deinit {
        stopAnswering()
        unlock()
    }

    private var account: SimulatedPlaces.Account {
        get { places.accounts[number] ?? .init() }
        set { places.accounts[number] = newValue }
    }

    func tryToLock() -> Bool {
        if process.isDead { return false }
        if !holdsLock, account.holder == nil {
            account.holder = process
            holdsLock = true
        }
        return holdsLock
    }

    func unlock() {
        guard holdsLock else { return }
        holdsLock = false
        if !process.isDead, account.holder === process { account.holder = nil }
    }

    var sent: SentProgress? { account.records.last ?? nil }

    func record(_ sent: SentProgress) { if !process.isDead { places.record(sent, number) } }

    func ask(_ question: OwnerQuestion, until deadline: Deadline, on loop: EventLoop) async -> OwnerAnswer? {
        await loop.sleep(.microseconds(50))
        guard let listener = account.listener, listener !== process else { return nil }
        while let listener = account.listener, !listener.isDead, !loop.isPassed(deadline) {
            if !listener.isFrozen, let decide = account.decide { return answer(question, listener, decide) }
            await loop.sleep(.milliseconds(1))
        }
        return nil
    }

    private func answer(
        _ question: OwnerQuestion, _ listener: SimulatedDisk.Process,
        _ decide: @Sendable (OwnerQuestion) -> OwnerAnswer
    ) -> OwnerAnswer {
        places.run(listener) { decide(question) }
    }

    func listen() throws {
        if process.isDead { return }
        (account.listener, account.decide) = (process, nil)
    }

    func answer(_ decide: @escaping @Sendable (OwnerQuestion) -> OwnerAnswer) {
        if !process.isDead, account.listener === process { account.decide = decide }
    }

    func stopAnswering() {
        guard !process.isDead, account.listener === process else { return }
        (account.listener, account.decide) = (nil, nil)
    }
}
