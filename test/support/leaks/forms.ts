/** A secret to search for, and a name for it that may be printed. */
export interface Hunted {
  readonly name: string
  readonly secret: string
}

/** A text that may contain none of the secrets except the listed ones. */
export interface Searched {
  readonly place: string
  readonly text: string
  /** Names of the secrets that may appear here. */
  readonly but?: ReadonlyArray<string>
}

/** Characters that identify a secret. Its end may be cut off, and base64 mixes its ends with their neighbours. */
const IDENTIFYING_LENGTH = 20

const percent = (text: string): string =>
  [...Buffer.from(text)].map((byte) => `%${byte.toString(16).padStart(2, "0")}`).join("")

/** Encodings in which a secret may leak: plain, percent-encoded, hex, and base64 at each of its three offsets. */
export const formsOf = (secret: string): ReadonlyArray<string> => {
  const core = secret.slice(0, Math.max(IDENTIFYING_LENGTH, Math.floor(secret.length / 2)))
  const base64 = [0, 1, 2].map((offset) =>
    // The first and last digits depend on the neighbouring bytes.
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

/** Every leaked secret, as `place: name`. */
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
