import { readHookArguments } from "./cli/hook/hookOptions.ts"

type Variables = Readonly<Record<string, string | undefined>>

/** Hosts that no proxy reaches. */
const LOOPBACK = ["localhost", "127.0.0.1", "::1"]

/** Commands that run the service, which connects to receivers, collectors and providers itself, without a proxy. */
const SERVICE_COMMANDS: ReadonlySet<string | undefined> = new Set(["serve", "demo", "doctor"])

/** Sends the requests of a command through the proxy of `HTTPS_PROXY` or `HTTP_PROXY`, except to the hosts of `NO_PROXY` and this machine. */
const useEnvironmentProxy = async (command: string | undefined, variables: Variables) => {
  const of = (name: string) => variables[name.toLowerCase()] ?? variables[name]
  if (SERVICE_COMMANDS.has(command) || (!of("HTTPS_PROXY") && !of("HTTP_PROXY"))) return
  // Loaded only by the commands that need it: a hook starts for each call of a tool.
  const { EnvHttpProxyAgent, setGlobalDispatcher } = (await import("undici")).default
  const noProxy = [of("NO_PROXY"), ...LOOPBACK].filter((hosts) => hosts !== undefined).join(",")
  setGlobalDispatcher(new EnvHttpProxyAgent({ noProxy }))
}

const args = process.argv.slice(2)
const hook = readHookArguments(args)
await useEnvironmentProxy(args[0], process.env)
// A coding agent starts a hook for each call of a tool, so it does not load the command line's library.
if (hook === undefined) {
  const [{ countersign }, { run }] = await Promise.all([
    import("./cli/countersign.ts"),
    import("./cli/run.ts")
  ])
  run(countersign(args))
} else {
  const { main } = await import("./cli/hook/main.ts")
  await main(hook.vendor, hook.flags)
}
