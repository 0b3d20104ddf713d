'use strict'

/** A cart of articles; prices are in cents. */
class Cart {
  constructor () {
    this.lines = new Map()
  }

  addItem (id, price, quantity = 1) {
    // The same article twice is one line of the cart.
    const line = this.lines.get(id)
    if (line) {
      line.quantity += quantity
    } else {
      if (quantity < 1) throw new RangeError('the quantity must be at least 1')
      this.lines.set(id, { price, quantity })
    }
    return this
  }

  removeItem (id, quantity = 1) {
    const line = this.lines.get(id)
    if (!line) return this
    line.quantity -= quantity
    if (line.quantity <= 0) this.lines.delete(id)
    return this
  }

  get count () {
    let all = 0
    for (const { quantity } of this.lines.values()) all += quantity
    return all
  }

  get total () {
    let all = 0
    for (const { price, quantity } of this.lines.values()) all += price * quantity
    return all
  }
}

module.exports = { Cart }
