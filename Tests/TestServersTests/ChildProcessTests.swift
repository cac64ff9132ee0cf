import Glibc
import TestSupport
import TestThreads
import Testing
import TestServers

@Suite(.ownThread) struct ChildProcessTests {
    private var soon: ContinuousClock.Instant { .now + .seconds(20) }

    /// Whether a process with this id exists (a zombie does).
    private func exists(_ processID: Int32) -> Bool { kill(processID, 0) == 0 }

    private func shell(_ script: String) throws -> ChildProcess {
        try ChildProcess("/bin/sh", ["-c", script], input: .pipe, output: .pipe, errors: .pipe)
    }

    @Test("W6 a child's exit status is reported", arguments: [0, 1, 42, 255] as [Int32])
    func exitStatus(status: Int32) throws {
        let ending = try shell("exit \(status)").waitUntilExit(deadline: soon)
        #expect(ending.cause == .exited(status))
        #expect(ending.succeeded == (status == 0))
    }

    @Test("W6 the signal that ended a child is reported", arguments: [SIGKILL, SIGTERM, SIGSEGV])
    func endingSignal(signal: Int32) throws {
        let child = try ChildProcess("/bin/sleep", ["600"])
        #expect(child.signal(signal))
        #expect(try child.waitUntilExit(deadline: soon).cause == .signaled(signal))
        #expect(!child.signal(signal), "a child that has ended must not be signaled")
    }

    @Test("W6 a child's output is read line by line, the last line also without a line end")
    func lines() throws {
        let child = try shell(#"printf 'one\n\ntwo'; printf 'oops\n' >&2"#)
        let output = try #require(child.output)
        #expect(try output.readLine(deadline: soon) == "one")
        #expect(try output.readLine(deadline: soon)?.isEmpty == true)
        #expect(try output.readLine(deadline: soon) == "two")
        #expect(try output.readLine(deadline: soon) == nil)
        #expect(try child.errors?.readToEnd(deadline: soon) == "oops\n")
    }

    @Test("W6 output larger than a pipe arrives whole")
    func largeOutput() throws {
        let child = try shell("yes 0123456789 | head -n 50000")
        let text = try #require(child.output).readToEnd(deadline: soon)
        #expect(text.utf8.count == 50000 * 11)
        #expect(text.hasSuffix("0123456789\n"))
    }

    @Test("W6 reading a line stops at its deadline and keeps what came")
    func readingStopsAtDeadline() throws {
        let child = try shell("printf half; read line; echo \" $line\"")
        let output = try #require(child.output)
        let error = #expect(throws: ChildProcessError.self) {
            _ = try output.readLine(deadline: .now + .milliseconds(50))
        }
        #expect(error?.code == .timedOut)
        try child.write("whole\n")
        #expect(try output.readLine(deadline: soon) == "half whole")
    }

    @Test("W6 an awaited line that never comes ends with the last line in the message")
    func awaitedLineMissing() throws {
        let output = try #require(try shell("echo good; echo bye").output)
        let error = #expect(throws: ChildProcessError.self) {
            _ = try output.readLine(deadline: soon) { $0 == "ready" }
        }
        #expect(error?.code == .streamClosed)
        #expect(error?.message.contains("bye") == true)
    }

    @Test("W6 a child reads what is written to it until its input is closed")
    func feeding() throws {
        let child = try ChildProcess("/bin/cat", input: .pipe, output: .pipe)
        try child.write("one\n")
        #expect(try child.output?.readLine(deadline: soon) == "one")
        child.closeInput()
        #expect(try child.waitUntilExit(deadline: soon).succeeded)
        let error = #expect(throws: ChildProcessError.self) { try child.write("more") }
        #expect(error?.code == .streamClosed)
    }

    @Test("W6 writing to a child that has ended is an error and not a signal")
    func writingToDeadChild() throws {
        let child = try shell("exit 0")
        try child.waitUntilExit(deadline: soon)
        let error = #expect(throws: ChildProcessError.self) { try child.write("anybody there?\n") }
        #expect(error?.code == .streamClosed)
    }

    @Test("W6 waiting for a running child stops at its deadline")
    func waitingStopsAtDeadline() throws {
        let child = try ChildProcess("/bin/sleep", ["600"])
        let error = #expect(throws: ChildProcessError.self) {
            try child.waitUntilExit(deadline: .now + .milliseconds(20))
        }
        #expect(error?.code == .timedOut)
        #expect(child.isRunning)
    }

    @Test("W6 SIGSTOP freezes a child and SIGCONT lets it go on")
    func freezing() throws {
        let child = try ChildProcess("/bin/cat", input: .pipe, output: .pipe)
        try child.write("before\n")
        #expect(try child.output?.readLine(deadline: soon) == "before")
        child.signal(SIGSTOP)
        #expect(becomesTrue(before: soon) { kernelState(of: child.processID)?.state == "T" })
        try child.write("while frozen\n")
        #expect(throws: ChildProcessError.self) {
            _ = try child.output?.readLine(deadline: .now + .milliseconds(50))
        }
        child.signal(SIGCONT)
        #expect(try child.output?.readLine(deadline: soon) == "while frozen")
    }

    @Test("W6 a frozen child can still be killed and reaped")
    func killingFrozen() throws {
        let child = try ChildProcess("/bin/sleep", ["600"])
        child.signal(SIGSTOP)
        #expect(child.killAndWait()?.cause == .signaled(SIGKILL))
        #expect(!exists(child.processID))
    }

    @Test("W6 a child that ignores SIGTERM is killed after the grace period")
    func termination() throws {
        let child = try shell("trap '' TERM; echo deaf; while :; do read line; done")
        #expect(try child.output?.readLine(deadline: soon) == "deaf")
        #expect(child.terminate(grace: .milliseconds(30))?.cause == .signaled(SIGKILL))
    }

    @Test("W6 a dropped child is killed and reaped with all its descendants")
    func nothingLeft() throws {
        var child: ChildProcess? = try shell("sleep 600 & echo $!; wait")
        let childID = try #require(child?.processID)
        let grandchildID = try #require(Int32(try child?.output?.readLine(deadline: soon) ?? ""))
        #expect(exists(childID) && exists(grandchildID))
        child = nil
        #expect(!exists(childID), "deinit reaps")
        #expect(hasEnded(grandchildID, deadline: soon))
    }

    @Test("W6 what a child leaves in its group when it ends is killed")
    func descendantsOfEnded() throws {
        let child = try shell("sleep 600 >/dev/null 2>&1 & echo $!")
        let grandchildID = try #require(Int32(try child.output?.readLine(deadline: soon) ?? ""))
        #expect(try child.waitUntilExit(deadline: soon).succeeded)
        #expect(hasEnded(grandchildID, deadline: soon))
    }

    @Test("W6 a child dies with the process that started it, even by SIGKILL")
    func diesWithParent() throws {
        // The shell stands for us; setpriv is what ChildProcess uses to ask the kernel for this.
        let child = try ChildProcess(
            "/bin/sh", ["-c", "/usr/bin/setpriv --pdeathsig KILL -- sleep 600 & echo $!; wait"], output: .pipe
        )
        let grandchildID = try #require(Int32(try child.output?.readLine(deadline: soon) ?? ""))
        child.signal(SIGKILL)
        #expect(hasEnded(grandchildID, deadline: soon))
        let asked = try ChildProcess("/bin/sleep", ["600"])
        let becameProgram = becomesTrue(before: soon) { kernelState(of: asked.processID)?.name == "sleep" }
        #expect(becameProgram, "setpriv is replaced by the program itself")
    }

    @Test("W6 the environment is passed on with additions, or replaced")
    func environments() throws {
        let script = "echo $ADDED; echo ${HOME:-none}"
        let inheriting = try ChildProcess(
            "/bin/sh", ["-c", script], environment: .inheriting(["ADDED": "yes", "HOME": "/nowhere"]),
            output: .pipe)
        #expect(try inheriting.output?.readToEnd(deadline: soon) == "yes\n/nowhere\n")
        let only = try ChildProcess(
            "/bin/sh", ["-c", script], environment: .only(["ADDED": "only"]), output: .pipe)
        #expect(try only.output?.readToEnd(deadline: soon) == "only\nnone\n")
    }

    @Test("W6 a child starts in the folder asked for, with no descriptor but 0, 1 and 2")
    func folderAndDescriptors() throws {
        let open = open("/dev/null", O_RDONLY)  // not close-on-exec
        defer { close(open) }
        let child = try ChildProcess("/bin/sh", ["-c", "pwd; ls /proc/$$/fd"], folder: "/usr", output: .pipe)
        #expect(try child.output?.readToEnd(deadline: soon) == "/usr\n0\n1\n2\n")
    }

    @Test("W6 output appended to a file is there when the child has ended")
    func outputToFile() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/output"
        for word in ["one", "two"] {
            let child = try ChildProcess("/bin/echo", [word], output: .file(path))
            #expect(try child.waitUntilExit(deadline: soon).succeeded)
        }
        #expect(try folder.text(of: "output") == "one\ntwo\n")
    }

    @Test("W6 a missing program is named", arguments: ["/no/such/program", "no-such-program"])
    func missingProgram(program: String) throws {
        let error = #expect(throws: ChildProcessError.self) { try ChildProcess(program) }
        #expect(error?.code == .programNotFound)
        #expect(error?.message.contains(program) == true)
    }

    @Test("W6 a file that is no program is an error of the start")
    func notAProgram() throws {
        let folder = try TemporaryFolder()
        let path = folder.path + "/script"
        try folder.write("\u{7f}nonsense", to: "script")
        chmod(path, 0o700)
        let error = #expect(throws: ChildProcessError.self) { try ChildProcess(path, endsWithParent: false) }
        #expect(error?.code == .startFailed)
        #expect(error?.message.contains(path) == true)
    }

    @Test("W6 processor time and elapsed time of a child are measured")
    func measures() throws {
        let child = try shell("i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
        let ending = try child.waitUntilExit(deadline: soon)
        #expect(ending.userTime + ending.systemTime > .zero)
        #expect(ending.elapsed >= (ending.userTime + ending.systemTime) / 2)
        #expect(ending.peakResidentBytesBound > 100_000)
    }
}
