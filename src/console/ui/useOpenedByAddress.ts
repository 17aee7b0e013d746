import { useEffect, useEffectEvent } from "react"
import { navigate, useQueryParameter } from "../app/router.tsx"

/** Opens a form when the address asks for it by `?new=`, and removes that, so that a reload does not open it again. */
export const useOpenedByAddress = (name: string, open: () => void): void => {
  const isWanted = useQueryParameter("new") === name
  const start = useEffectEvent(() => {
    const parameters = new URLSearchParams(location.search)
    parameters.delete("new")
    navigate(parameters.size === 0 ? "" : `?${parameters.toString()}`, { replace: true })
    open()
  })
  useEffect(() => {
    if (isWanted) start()
  }, [isWanted])
}
