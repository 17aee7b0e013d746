/** Notifications of the operating system about new approvals. Off until a person turns them on, in each browser. */
import { Effect } from "effect"
import { Atom } from "effect/reactivity"
import { CONSOLE_PATH } from "../../api/Console.ts"
import { registry } from "./atoms.ts"
import { readPreference, writePreference } from "./browserPreference.ts"
import { findObstacle } from "./findObstacle.ts"
import { hasVisibleTab, isLeader, subscribeToInbox } from "./inboxStream.ts"
import { makeNotifier, type NotificationContent } from "./notifications/Notifier.ts"
import { serverNow, sessionAtom } from "./session.ts"

/** `denied`: the browser blocks them for this site. `unsupported`: it has none, or not on this page. */
export type NotificationSetting = "unsupported" | "denied" | "off" | "on"

const NAME = "desktop-notifications"

/** Another tab may have changed the setting, and its user the permission. */
const readSetting = (): NotificationSetting => {
  if (typeof Notification === "undefined" || !isSecureContext) return "unsupported"
  if (Notification.permission === "denied") return "denied"
  return Notification.permission === "granted" && readPreference(NAME) === "on" ? "on" : "off"
}

export const notificationSettingAtom = Atom.make((get): NotificationSetting => {
  const update = () => get.setSelf(readSetting())
  for (const type of ["storage", "focus"]) addEventListener(type, update)
  get.addFinalizer(() => {
    for (const type of ["storage", "focus"]) removeEventListener(type, update)
  })
  return readSetting()
})

/** Turns notifications on, which asks for the browser's permission, or off. Only after a click: browsers refuse to ask otherwise. */
export const setDesktopNotifications = async (on: boolean): Promise<void> => {
  if (on && (await Notification.requestPermission()) !== "granted") {
    registry.refresh(notificationSettingAtom)
    return
  }
  writePreference(NAME, on ? "on" : "off")
  registry.refresh(notificationSettingAtom)
}

/** Shows a notification. A page cannot on phones: browsers there require a service worker, which the console does not have. */
const show =
  (open: (path: string) => void) =>
  ({ body, path, tag, title }: NotificationContent): (() => void) => {
    try {
      const notification = new Notification(title, { body, tag })
      notification.addEventListener("click", () => {
        notification.close()
        window.focus()
        open(path)
      })
      return () => notification.close()
    } catch {
      return () => {}
    }
  }

/** Opens a page of the console here, or in another tab if this one has a form, whose content would be lost. */
const openPage =
  (navigate: (path: string) => void) =>
  (path: string): void => {
    if (document.querySelector("[role=dialog], #content form") === null) navigate(path)
    else window.open(CONSOLE_PATH + path, "_blank", "noopener")
  }

/** Notifies of new approvals while the session lasts. Returns the function that stops. */
export const followNotifications = (navigate: (path: string) => void): (() => void) => {
  const notifier = Effect.runSync(
    makeNotifier({
      isEnabled: () => isLeader() && readSetting() === "on",
      canApprove: (approval) => {
        const state = registry.get(sessionAtom)
        return state._tag === "SignedIn" && findObstacle(approval, state.session) === undefined
      },
      hasVisibleTab,
      now: serverNow,
      show: show(openPage(navigate))
    })
  )
  const nothing = () => {}
  const unsubscribe = subscribeToInbox({
    approval: notifier.approval,
    opened: nothing,
    resync: nothing,
    broken: nothing
  })
  const onVisibilityChange = () => {
    if (!document.hidden) notifier.closeAll()
  }
  document.addEventListener("visibilitychange", onVisibilityChange)
  addEventListener("pagehide", notifier.closeAll)
  return () => {
    unsubscribe()
    document.removeEventListener("visibilitychange", onVisibilityChange)
    removeEventListener("pagehide", notifier.closeAll)
    notifier.closeAll()
  }
}
