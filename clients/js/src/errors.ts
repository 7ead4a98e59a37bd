/** A device cannot report, or must not. The text never holds a value. */
export class DeviceError extends Error {
  /** Stable identifier, such as E-DEVICE-EPOCH. */
  readonly code: string;

  constructor(code: string, message: string, remedy = "") {
    super(`${message}.${remedy && " "}${remedy} [${code}]`);
    Object.setPrototypeOf(this, DeviceError.prototype); // a build for ES5 forgets it
    this.name = "DeviceError";
    this.code = code;
  }
}
