/** The number of pending approvals where it is seen without looking at the page: in the tab's icon and on the installed app's. */
import { useEffect } from "react"
import { useAtomValue } from "../state/atoms.ts"
import { pendingCountAtom } from "../state/inboxStream.ts"

/** An icon has room for one digit. */
const MAX_DIGIT = 9

/** The logo with the count on a disc of its own, so that it is legible on light and dark tabs. */
const iconWith = (text: string): string => {
  const size = text.length === 1 ? 17 : 14
  const svg = `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<circle cx="14" cy="14" r="14" fill="#2f4a9e"/>
<path d="M7 15.2 12 20l9.5-11" fill="none" stroke="#fff" stroke-width="3.2" stroke-linecap="round" stroke-linejoin="round"/>
<circle cx="21.5" cy="21.5" r="10.5" fill="#c62828" stroke="#fff" stroke-width="1.5"/>
<text x="21.5" y="${21.5 + size * 0.36}" font-family="system-ui,sans-serif" font-size="${size}" font-weight="700" text-anchor="middle" fill="#fff">${text}</text>
</svg>`
  return `data:image/svg+xml,${encodeURIComponent(svg)}`
}

const iconLink = (): HTMLLinkElement | null => document.querySelector("link[rel=icon]")

/** The address of the icon without a count. */
const plainIcon = typeof document === "undefined" ? undefined : iconLink()?.href

const showIcon = (href: string | undefined): void => {
  const link = iconLink()
  if (link !== null && href !== undefined && link.href !== href) link.href = href
}

/** Shows the count on the icon of the installed app, where browsers have one. */
const showAppBadge = async (count: number): Promise<void> => {
  if (!("setAppBadge" in navigator)) return
  try {
    await (count === 0 ? navigator.clearAppBadge() : navigator.setAppBadge(count))
  } catch {
    // The app is not installed, or the system has no badges.
  }
}

/** Keeps both icons current. Renders nothing. */
export const CountIcon = () => {
  const count = useAtomValue(pendingCountAtom)
  const number = count?.count ?? 0
  const text = number === 0 ? "" : number > MAX_DIGIT || count?.more === true ? "9+" : String(number)
  useEffect(() => showIcon(text === "" ? plainIcon : iconWith(text)), [text])
  useEffect(() => void showAppBadge(number), [number])
  useEffect(
    () => () => {
      showIcon(plainIcon)
      void showAppBadge(0)
    },
    []
  )
  return null
}
