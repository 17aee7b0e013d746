import { assert, it } from "@effect/vitest"
import { Schema } from "effect"
import { spawnSync } from "node:child_process"
import { fileURLToPath } from "node:url"

const ATTEMPTS = 10_000
const script = fileURLToPath(new URL("canaryProcess.ts", import.meta.url))

/** The counts that the process prints. */
const Counted = Schema.fromJsonString(
  Schema.Struct({
    open: Schema.Int,
    canaries: Schema.Int,
    answered: Schema.Int,
    lookUps: Schema.Int,
    names: Schema.Int
  })
)

/** Addresses that must never be connected to. In the test's network namespace they belong to this machine. */
const inside = [
  "10.0.0.1",
  "100.64.0.1",
  "168.63.129.16",
  "169.254.169.254",
  "172.16.0.1",
  "192.168.1.1",
  "198.18.0.1",
  "fd00:ec2::254",
  "2002:7f00:1::1"
]

/** The flags with which this machine allows a network namespace, if any. */
const unshare = [["--net"], ["--net", "--map-root-user"]].find(
  (flags) => spawnSync("unshare", [...flags, "ip", "link", "set", "lo", "up"]).status === 0
)
if (unshare === undefined) {
  process.stdout.write(
    "canary addresses on loopback only: this machine does not allow network namespaces (unshare, ip)\n"
  )
}

it(`Egress › ${ATTEMPTS} attempts connect to no denied address and resolve each name once`, () => {
  const [command, args] =
    unshare === undefined
      ? [process.execPath, [script, String(ATTEMPTS), "127.0.0.1", "127.0.0.2,127.9.9.9,::1", "false"]]
      : [
          "unshare",
          [...unshare, process.execPath, script, String(ATTEMPTS), "93.184.216.34", inside.join(","), "true"]
        ]
  const { stderr, stdout } = spawnSync(command, args, { encoding: "utf8", timeout: 240_000 })
  const counted = Schema.decodeSync(Counted)(stdout === "" ? assert.fail(stderr) : stdout)
  assert.strictEqual(counted.canaries, 0)
  // One query per address family: no second resolution between the check and the connection.
  assert.strictEqual(counted.lookUps, 2 * counted.names)
  // The allowed address is reached throughout; otherwise the assertions above would prove nothing.
  assert.isAbove(counted.open, 10)
  assert.isAbove(counted.answered, ATTEMPTS / 10)
}, 300_000)
