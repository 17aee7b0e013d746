/** A secret that is hunted, by a name that may be told. */
export interface Hunted {
  readonly name: string
  readonly secret: string
}

/** A text in which none of them may be, or only those named. */
export interface Searched {
  readonly place: string
  readonly text: string
  /** Names of the secrets that belong here. */
  readonly but?: ReadonlyArray<string>
}

/** Characters of a secret that are enough to know it by: its ends may be cut, and base64 mixes them with their neighbours. */
const TELLING = 20

const percent = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("")

/** How a secret may look where it leaked: as it is, percent-encoded, in hex, and in base64 at each of its three offsets. */
export const formsOf = (secret: string): ReadonlyArray<string> => {
  const core = secret.slice(0, Math.max(TELLING, Math.floor(secret.length / 2)))
  const base64 = [0, 1, 2].map((offset) =>
    // The first and last digits depend on what stands beside.
    Buffer.from("\0".repeat(offset) + core)
      .toString("base64")
      .slice(offset === 0 ? 0 : 4, -4)
  )
  return [
    core,
    encodeURIComponent(core),
    percent(core),
    Buffer.from(core).toString("hex"),
    ...base64,
    ...base64.map((digits) => digits.replaceAll("+", "-").replaceAll("/", "_"))
  ]
}

/** Every secret that stands where it does not belong, as `place: name`. */
export const leaksIn = (
  hunted: ReadonlyArray<Hunted>,
  searched: ReadonlyArray<Searched>
): ReadonlyArray<string> =>
  searched.flatMap(({ but = [], place, text }) => {
    const lower = text.toLowerCase()
    return hunted
      .filter(
        ({ name, secret }) =>
          !but.includes(name) && formsOf(secret).some((form) => lower.includes(form.toLowerCase()))
      )
      .map(({ name }) => `${place}: ${name}`)
  })
