package compile

// Own lets the tests see which filters choose the rows of a write.
var Own = Context.own
