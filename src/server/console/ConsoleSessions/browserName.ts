/** Browsers by a word of their `User-Agent`. The first that matches names it: most browsers also name the browsers that they imitate. */
const browsers: ReadonlyArray<readonly [word: string, name: string]> = [
  ["Edg", "Edge"],
  ["OPR/", "Opera"],
  ["SamsungBrowser/", "Samsung Internet"],
  ["Firefox/", "Firefox"],
  ["FxiOS/", "Firefox"],
  ["CriOS/", "Chrome"],
  ["HeadlessChrome/", "Chrome"],
  ["Chrome/", "Chrome"],
  ["Safari/", "Safari"]
]

const systems: ReadonlyArray<readonly [word: string, name: string]> = [
  ["Windows", "Windows"],
  ["Android", "Android"],
  ["iPhone", "iOS"],
  ["iPad", "iPadOS"],
  ["CrOS", "ChromeOS"],
  ["Macintosh", "macOS"],
  ["Linux", "Linux"]
]

/** The characters of a `User-Agent` that are read. */
const MAX_READ = 512

/**
 * The browser and the system that a `User-Agent` names, such as `Firefox on Linux`; null if it names neither. The header itself is not
 * stored: its sender can write anything into it.
 */
export const browserName = (userAgent: string | undefined): string | null => {
  const text = (userAgent ?? "").slice(0, MAX_READ)
  const nameIn = (names: typeof browsers) => names.find(([word]) => text.includes(word))?.[1]
  const browser = nameIn(browsers)
  const system = nameIn(systems)
  if (system === undefined) return browser ?? null
  return `${browser ?? "A browser"} on ${system}`
}
