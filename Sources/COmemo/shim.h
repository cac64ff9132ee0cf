// libomemo-c: the Signal protocol with the changes of OMEMO. It is under the GPL, version 3; only the product Omemo
// imports this module.
#include <curve.h>
#include <key_helper.h>
#include <protocol.h>
#include <ratchet.h>
#include <session_builder.h>
#include <session_cipher.h>
#include <session_pre_key.h>
#include <session_record.h>
#include <session_state.h>
#include <signal_protocol.h>
