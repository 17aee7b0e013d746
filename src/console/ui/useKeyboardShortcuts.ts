import { useEffect, useEffectEvent } from "react"

/** Keys of a page, by their name in the event. They rest while something is typed or chosen, or a dialog is open. */
export const useKeyboardShortcuts = (keys: Readonly<Record<string, () => void>>): void => {
  const pressed = useEffectEvent((event: KeyboardEvent) => {
    if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return
    const { target } = event
    if (target instanceof HTMLElement && target.closest(IGNORED_TARGETS) !== null) return
    const act = keys[event.key]
    if (act === undefined) return
    event.preventDefault()
    act()
  })
  useEffect(() => {
    const listener = (event: KeyboardEvent) => pressed(event)
    addEventListener("keydown", listener)
    return () => removeEventListener("keydown", listener)
  }, [])
}

const IGNORED_TARGETS = "input, textarea, select, [contenteditable], [role=dialog]"
